package dev.gpuprocess.internal.pool;

import dev.gpuprocess.internal.linux.HugeTmpfs;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.options.HostMemory;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Host memory for save areas: files without a name, in huge pages where the file system has them.
 * What one process has had is never given to another one: it may still have it mapped. Safe for use
 * by several threads.
 */
public final class HostMemoryPool implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final long HUGE_PAGE = 2 << 20;

  /** The size of the files that are kept ready. A process gets as many of them as it needs. */
  private static final long SEGMENT = 512 << 20;

  /** What one thread makes at a time. */
  private static final long PIECE = 64 << 20;

  /** The same in the background, where a copy of GPU memory may come at any moment. */
  private static final long QUIET_PIECE = 16 << 20;

  private static final String NO_PLACE =
      "this user may not mount a tmpfs of huge pages, and /dev/shm has none: name one (GpuCheckpoints.Builder.hostMemory)";

  private final HostMemory wanted;
  private final Deque<NamelessFile> ready = new ArrayDeque<>();
  private boolean making;
  private int copies;
  private boolean closed;

  /** Prepares; memory that is to be kept ready is made in the background. */
  public HostMemoryPool(HostMemory wanted) {
    this.wanted = wanted;
    refill();
  }

  /** Whether host memory is switched on. */
  public boolean isUsed() {
    return wanted.isUsed();
  }

  /**
   * Looks for what will keep memory from being made; makes and mounts nothing.
   *
   * @param bytes how much
   * @return empty when nothing is seen
   */
  public Optional<String> obstacle(long bytes) {
    if (!wanted.isUsed()) {
      return Optional.of("the settings say so");
    }
    Optional<Path> place = wanted.directory().or(HugeTmpfs::present);
    if (place.isPresent()) {
      return HostMemoryCapacity.obstacle(place.get(), bytes);
    }
    return HugeTmpfs.mayBeMounted() ? Optional.empty() : Optional.of(NO_PLACE);
  }

  /** The directory for the files; empty if there is none, or host memory is switched off. */
  public Optional<Path> directory() {
    if (!wanted.isUsed()) {
      return Optional.empty();
    }
    return wanted.directory().or(HugeTmpfs::directory);
  }

  private Path requireDirectory() throws IOException {
    return directory()
        .orElseThrow(() -> new IOException(wanted.isUsed() ? NO_PLACE : "the settings say so"));
  }

  /**
   * Takes memory for several processes: for all of them or for none.
   *
   * @param bytes how much each of them needs
   * @return one for each of them, to be closed
   * @throws IOException when there is none, saying why
   */
  public List<PreparedMemory> take(Collection<Long> bytes) throws IOException {
    Path directory = requireDirectory();
    List<PreparedMemory> taken = new ArrayList<>();
    try {
      List<NamelessFile> toMake = new ArrayList<>();
      for (long each : bytes) {
        taken.add(new PreparedMemory(files(directory, each, toMake)));
      }
      if (!toMake.isEmpty()) {
        make(directory, toMake);
      }
      return taken;
    } catch (IOException | RuntimeException | Error e) {
      taken.forEach(PreparedMemory::close);
      throw e;
    }
  }

  /** Takes files that are ready, and creates more for the rest. */
  private List<NamelessFile> files(Path directory, long bytes, List<NamelessFile> toMake)
      throws IOException {
    List<NamelessFile> files = new ArrayList<>();
    long missing = bytes + HUGE_PAGE - 1 & -HUGE_PAGE;
    synchronized (ready) {
      while (missing > 0 && !ready.isEmpty()) {
        NamelessFile next = ready.remove();
        files.add(next);
        missing -= next.bytes();
      }
    }
    try {
      while (missing > 0) {
        NamelessFile more = NamelessFile.create(directory, Math.min(missing, SEGMENT));
        files.add(more);
        toMake.add(more);
        missing -= more.bytes();
      }
      return files;
    } catch (IOException e) {
      files.forEach(NamelessFile::close);
      throw e;
    }
  }

  private static void make(Path directory, List<NamelessFile> files) throws IOException {
    requireRoom(directory, files.stream().mapToLong(NamelessFile::bytes).sum());
    List<NamelessFile.Pages> mapped = new ArrayList<>();
    try (IoExecutor threads = IoExecutor.copying()) {
      List<CompletableFuture<Boolean>> pieces = new ArrayList<>();
      for (NamelessFile file : files) {
        NamelessFile.Pages pages = file.pages();
        mapped.add(pages);
        for (long from = 0; from < file.bytes(); from += PIECE) {
          long begin = from;
          long end = Math.min(file.bytes(), from + PIECE);
          pieces.add(threads.start(() -> made(pages, begin, end)));
        }
      }
      for (CompletableFuture<Boolean> piece : pieces) {
        boolean unused = IoExecutor.await(piece);
      }
    } finally {
      mapped.forEach(NamelessFile.Pages::close);
    }
  }

  private static boolean made(NamelessFile.Pages pages, long from, long to) throws IOException {
    pages.make(from, to);
    return true;
  }

  private static void requireRoom(Path directory, long bytes) throws IOException {
    Optional<String> obstacle = HostMemoryCapacity.obstacle(directory, bytes);
    if (obstacle.isPresent()) {
      throw new IOException(obstacle.get());
    }
  }

  /**
   * Makes files that will be filled by this JVM: for all or for none. Their pages come as they are
   * written.
   *
   * @param bytes how long each of them is to be at least
   * @return one for each of them, to be closed
   * @throws IOException when there is no room, or no place for them
   */
  public List<NamelessFile> files(List<Long> bytes) throws IOException {
    Path directory = requireDirectory();
    requireRoom(directory, bytes.stream().mapToLong(Long::longValue).sum());
    List<NamelessFile> files = new ArrayList<>();
    try {
      for (long each : bytes) {
        files.add(NamelessFile.create(directory, each));
      }
      return files;
    } catch (IOException e) {
      files.forEach(NamelessFile::close);
      throw e;
    }
  }

  /** Fills the ready memory up again, on one background thread. */
  public void refill() {
    synchronized (ready) {
      if (making || missing() == 0) {
        return;
      }
      making = true;
    }
    Thread maker = new Thread(this::fill, "gpuprocess-host-memory");
    maker.setDaemon(true);
    maker.start();
  }

  private long missing() {
    if (closed) {
      return 0;
    }
    long there = ready.stream().mapToLong(NamelessFile::bytes).sum();
    return Math.max(0, wanted.ready() - there);
  }

  /** Adds one file at a time, so that a suspend can already use the finished ones. */
  private void fill() {
    try {
      Path directory = requireDirectory();
      while (isMissing()) {
        NamelessFile file = NamelessFile.create(directory, SEGMENT);
        try {
          fill(directory, file);
        } catch (IOException | RuntimeException | Error e) {
          file.close();
          throw e;
        }
        synchronized (ready) {
          if (closed) {
            file.close();
          } else {
            ready.add(file);
          }
        }
      }
    } catch (IOException | RuntimeException e) {
      LOG.info("no host memory is kept ready: {}", e.getMessage());
      synchronized (ready) {
        making = false;
      }
    }
  }

  private boolean isMissing() {
    synchronized (ready) {
      making = missing() > 0;
      return making;
    }
  }

  private void fill(Path directory, NamelessFile file) throws IOException {
    requireRoom(directory, file.bytes());
    try (NamelessFile.Pages pages = file.pages()) {
      for (long from = 0; from < file.bytes(); from += QUIET_PIECE) {
        awaitQuiet();
        pages.make(from, from + QUIET_PIECE);
      }
    }
  }

  private void awaitQuiet() throws IOException {
    synchronized (ready) {
      try {
        while (copies > 0 && !closed) {
          ready.wait();
        }
      } catch (InterruptedException e) {
        throw new InterruptedIOException("interrupted");
      }
    }
  }

  /**
   * Notes that the GPU memory of processes is about to be copied. No memory is made in the
   * background meanwhile, since that would slow the copies down.
   *
   * @param processes how many
   * @return to be closed after the copies
   */
  public Copies copying(int processes) {
    return new Copies(processes);
  }

  /** The copies of an operation. For one thread, but for {@link #underWay}. */
  public final class Copies implements AutoCloseable {

    private final int processes;

    private Copies(int processes) {
      this.processes = processes;
      add(processes);
    }

    private void add(int more) {
      synchronized (ready) {
        copies += more;
        ready.notifyAll();
      }
    }

    /** Returns how many processes are copied now, those of other operations included. */
    public int underWay() {
      synchronized (ready) {
        return copies;
      }
    }

    @Override
    public void close() {
      add(-processes);
    }
  }

  /** How much is ready, in bytes. */
  public long readyBytes() {
    synchronized (ready) {
      return ready.stream().mapToLong(NamelessFile::bytes).sum();
    }
  }

  /** Frees the ready memory. No more is made. */
  @Override
  public void close() {
    synchronized (ready) {
      closed = true;
      ready.notifyAll();
      ready.forEach(NamelessFile::close);
      ready.clear();
    }
  }
}
