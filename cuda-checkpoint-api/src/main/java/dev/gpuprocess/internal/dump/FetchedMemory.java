package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.os.ProcessTree;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.store.LogDirectory;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.wire.Kind;
import dev.gpuprocess.internal.wire.LocalPort;
import dev.gpuprocess.internal.wire.Message;
import dev.gpuprocess.internal.wire.PageRelay;
import dev.gpuprocess.internal.wire.Wire;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.LazyMemory;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.VetoException;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Memory that a restored tree fetches from the host that it comes from. If it breaks the tree is
 * ended before its helper is: the kernel would give it zeroes.
 */
final class FetchedMemory implements MissingMemory, PageRelay.LocalEnd, AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** How long a tree may take to end. */
  private static final Duration ENDING = Duration.ofSeconds(5);

  /** What becomes of the tree. It has all of its memory, or is ended, and never both. */
  private enum Fate {
    COMING,
    WHOLE,
    BROKEN
  }

  private final CriuDriver criu;
  private final Wire from;
  private final Path images;
  private final Duration limit;
  private final long most;
  private final long end;
  private @Nullable LogDirectory log;
  private @Nullable LocalPort port;
  private @Nullable LazyMemory helper;
  private volatile @Nullable PageRelay relay;
  private volatile List<ProcessIdentity> tree = List.of();
  private final AtomicReference<Fate> fate = new AtomicReference<>(Fate.COMING);

  /**
   * Prepares; nothing is started yet.
   *
   * @param images the directory of CRIU's files, by its name: the helper is another process
   * @param most how much may come, in bytes
   */
  FetchedMemory(CriuDriver criu, Wire from, Path images, Duration limit, long most) {
    this.criu = criu;
    this.from = from;
    this.images = images;
    this.limit = limit;
    this.most = most;
    this.end = Durations.end(limit);
  }

  @Override
  public void prepare(LogDirectory restore) {
    log = restore;
    try {
      LocalPort open = LocalPort.open();
      port = open;
      LazyMemory fetching = criu.fetchPages(images, restore.path(), open.endpoint(), limit);
      helper = fetching;
      begin(open, fetching);
    } catch (IOException e) {
      throw Reception.failed(0, e);
    }
  }

  @Override
  public RestoreListener told(RestoreListener first) {
    return new RestoreListener() {
      @Override
      public void preRestore() throws VetoException {
        first.preRestore();
      }

      @Override
      public void setupNamespaces(int pid) throws VetoException {
        first.setupNamespaces(pid);
      }

      @Override
      public void postRestore(int pid) throws VetoException {
        first.postRestore(pid);
        // All of it stands still now. Later a process whose parent has ended is not found below it.
        tree =
            ProcFs.tree(pid).stream().flatMap(each -> ProcessIdentity.of(each).stream()).toList();
        if (fate.get() == Fate.BROKEN) {
          // What it has touched since has zeroes.
          throw new VetoException("its memory does not come any more");
        }
      }
    };
  }

  /** CRIU touches memory of the tree while it restores, so that has to come from then on. */
  private void begin(LocalPort met, LazyMemory fetching) throws IOException {
    from.send(Kind.READY);
    Message unused = from.receive(Kind.COMMIT);
    relay =
        PageRelay.at(
            met,
            end,
            from,
            local -> fetching.requests(local.getInputStream(), local.getOutputStream()),
            this,
            most);
  }

  /** The sender's tree may die only if this one has everything. */
  @Override
  public void check() throws IOException {
    LazyMemory fetching = helper;
    if (fetching == null) {
      throw new IllegalStateException("nothing fetches");
    }
    try {
      fetching.await();
    } catch (GpuCheckpointException e) {
      throw new IOException(e.getMessage(), e);
    }
    // The sender is told next, and its tree may die then.
    if (!fate.compareAndSet(Fate.COMING, Fate.WHOLE)) {
      throw new IOException("the process was ended meanwhile");
    }
  }

  /** Whether the tree has all of its memory: it is not ended any more, whatever breaks. */
  boolean isWhole() {
    return fate.get() == Fate.WHOLE;
  }

  /**
   * Ends the tree if it lacks memory, and waits for that.
   *
   * @return whether it is gone; false also when that is not known, and when it has all of its
   *     memory
   */
  @Override
  public boolean broken() {
    boolean first = fate.compareAndSet(Fate.COMING, Fate.BROKEN);
    if (fate.get() == Fate.WHOLE) {
      return false;
    }
    List<ProcessIdentity> ours = tree;
    if (first && !ours.isEmpty()) {
      LOG.warn("process {} does not get all of its memory: it is ended", ours.get(0).pid());
    }
    try {
      return ProcessTree.end(ours, ENDING);
    } catch (ProcessUnreadableException e) {
      LOG.warn("a process that lacks memory may not have ended: {}", e.getMessage());
      return false;
    }
  }

  /**
   * Waits until all of it is here.
   *
   * @throws IOException when it broke; the tree was ended
   */
  void await() throws IOException {
    PageRelay passing = relay;
    if (passing == null) {
      throw new IllegalStateException("the CRIU driver restored without telling postRestore");
    }
    passing.await();
  }

  /** Ends a tree that lacks memory, and only then what gives it memory. */
  @Override
  public void close() {
    boolean unused = broken();
    if (relay != null) {
      relay.close();
    }
    if (port != null) {
      port.close();
    }
    if (helper != null) {
      helper.close();
    }
    if (log != null) {
      log.delete();
    }
  }
}
