package dev.gpuprocess.internal.pool;

import dev.gpuprocess.internal.linux.HugeTmpfs;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.options.HostMemory;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.ref.Cleaner;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Host memory for save areas: files without a name, in huge pages if the file system has them. A
 * file that one process has used is never given to another, since the first may still map it. Safe
 * for use by several threads.
 */
public final class HostMemoryPool implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final long HUGE_PAGE = 2 << 20;

  /** The size of the files that are kept ready. A process gets as many files as it needs. */
  private static final long SEGMENT = 512 << 20;

  /** How much memory one thread makes at a time. */
  private static final long PIECE = 64 << 20;

  /** How much memory the background thread makes at a time; a copy of GPU memory may begin soon. */
  private static final long QUIET_PIECE = 16 << 20;

  private static final String NO_PLACE =
      "this user may not mount a tmpfs of huge pages, and /dev/shm has no huge pages: set a directory with GpuCheckpoints.Builder.hostMemory";

  /** Held by threads that make memory, for all pools of this JVM. */
  private static final ReentrantLock MAKING = new ReentrantLock();

  private final HostMemory wanted;
  private final Deque<NamelessFile> ready = new ArrayDeque<>();
  private boolean making;
  private int copies;
  private boolean closed;

  /** Creates a pool, and makes the memory to be kept ready in the background. */
  public HostMemoryPool(HostMemory wanted) {
    this.wanted = wanted;
    if (wanted.ready() > 0) {
      Cleaner.Cleanable unused = Unused.CLEANER.register(this, new Unused(ready));
    }
    refill();
  }

  /** Frees the ready memory of a pool that is not in use any more. */
  private record Unused(Deque<NamelessFile> ready) implements Runnable {

    private static final Cleaner CLEANER = Cleaner.create();

    @Override
    public void run() {
      synchronized (ready) {
        ready.forEach(NamelessFile::close);
        ready.clear();
      }
    }
  }

  /** Returns whether host memory is switched on. */
  public boolean isUsed() {
    return wanted.isUsed();
  }

  /**
   * Returns why memory cannot be made. Makes and mounts nothing.
   *
   * @return empty if no reason is known
   */
  public Optional<String> obstacle(long bytes) {
    if (!wanted.isUsed()) {
      return Optional.of("the settings say so");
    }
    Optional<Path> place = wanted.directory().or(HugeTmpfs::present);
    if (place.isPresent()) {
      return HostMemoryCapacity.obstacle(place.get(), bytes);
    }
    return HugeTmpfs.mayBeMounted() ? HostMemoryCapacity.shortage(bytes) : Optional.of(NO_PLACE);
  }

  /** Returns the directory for the files; empty without one, or if host memory is switched off. */
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
   * @param bytes how much each process needs
   * @return the memory of each process, to be closed
   * @throws IOException if there is too little memory, or no directory for it
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

  /** Takes ready files, and creates more files for the rest. */
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
    } catch (IOException | RuntimeException | Error e) {
      files.forEach(NamelessFile::close);
      throw e;
    }
  }

  /** One suspend after the other: each is to see the memory that the others have made. */
  private static void make(Path directory, List<NamelessFile> files) throws IOException {
    try {
      MAKING.lockInterruptibly();
    } catch (InterruptedException e) {
      throw new InterruptedIOException("interrupted");
    }
    try {
      makeAlone(directory, files);
    } finally {
      MAKING.unlock();
    }
  }

  private static void makeAlone(Path directory, List<NamelessFile> files) throws IOException {
    requireCapacity(directory, files.stream().mapToLong(NamelessFile::bytes).sum());
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
      List<Boolean> unused = IoExecutor.awaitAll(pieces);
    } finally {
      mapped.forEach(NamelessFile.Pages::close);
    }
  }

  private static boolean made(NamelessFile.Pages pages, long from, long to) throws IOException {
    pages.make(from, to);
    return true;
  }

  private static void requireCapacity(Path directory, long bytes) throws IOException {
    Optional<String> obstacle = HostMemoryCapacity.obstacle(directory, bytes);
    if (obstacle.isPresent()) {
      throw new IOException(obstacle.get());
    }
  }

  /**
   * Creates files that this JVM will write: all of them or none. Their pages are made when they are
   * written.
   *
   * @param bytes the least size of each file
   * @param zeros how many of these bytes will not be written
   * @return the files, to be closed
   * @throws IOException if there is too little memory, or no directory for them
   */
  public List<NamelessFile> files(List<Long> bytes, long zeros) throws IOException {
    Path directory = requireDirectory();
    requireCapacity(directory, bytes.stream().mapToLong(Long::longValue).sum() - zeros);
    List<NamelessFile> files = new ArrayList<>();
    try {
      for (long each : bytes) {
        files.add(NamelessFile.create(directory, each));
      }
      return files;
    } catch (IOException | RuntimeException | Error e) {
      files.forEach(NamelessFile::close);
      throw e;
    }
  }

  /** Makes the missing ready memory, on one background thread. */
  public void refill() {
    synchronized (ready) {
      if (making || missing() == 0) {
        return;
      }
      making = true;
    }
    try {
      Threads.daemon("gpuprocess-host-memory", this::fill).start();
    } catch (OutOfMemoryError e) {
      notMade(e); // the machine allows no more threads
    }
  }

  private void notMade(Throwable why) {
    LOG.info("no host memory is kept ready: {}", why.getMessage());
    synchronized (ready) {
      making = false;
    }
  }

  private long missing() {
    if (closed) {
      return 0;
    }
    long there = ready.stream().mapToLong(NamelessFile::bytes).sum();
    return Math.max(0, wanted.ready() - there);
  }

  /** Adds one file at a time, so that a suspend can use the finished ones. */
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
    } catch (IOException | RuntimeException | OutOfMemoryError e) {
      notMade(e);
    }
  }

  private boolean isMissing() {
    synchronized (ready) {
      making = missing() > 0;
      return making;
    }
  }

  private void fill(Path directory, NamelessFile file) throws IOException {
    requireCapacity(directory, file.bytes());
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
   * Begins to copy the GPU memory of processes. No memory is made in the background until the
   * copies end, since that would slow them down.
   *
   * @param processes how many
   * @return to be closed after the copies
   */
  public Copies copying(int processes) {
    return new Copies(processes);
  }

  /** The copies of an operation. For one thread, except {@link #underWay}. */
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

  /** Returns how many bytes are ready. */
  public long readyBytes() {
    synchronized (ready) {
      return ready.stream().mapToLong(NamelessFile::bytes).sum();
    }
  }

  /** Frees the ready memory, and makes no more. */
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
