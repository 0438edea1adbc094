package dev.gpuprocess.examples.bus;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.HostMemory;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/** Settings with a host memory pool that is filled before a process is suspended. */
final class ReadyMemory implements AutoCloseable {

  /** The pool is made in parts of this size. */
  private static final long PART = 512L << 20;

  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(10);
  private static final int QUIET_ROUNDS = 20;

  /** The unit of {@code stat -c %b}. */
  private static final long BLOCK = 512;

  private final Path tmpfs;
  private final long bytes;
  private final GpuCheckpoints checkpoints;

  private ReadyMemory(GpuCheckpoints settings, Path tmpfs, long bytes) throws IOException {
    this.tmpfs = tmpfs.toRealPath();
    this.bytes = bytes;
    this.checkpoints =
        settings.toBuilder().hostMemory(HostMemory.in(this.tmpfs).ready(bytes)).build();
  }

  /**
   * Begins to fill the pool.
   *
   * @param settings all other settings
   * @param tmpfs the place of the pool
   * @param processes the number of processes
   * @param each bytes for one process
   */
  static ReadyMemory of(GpuCheckpoints settings, Path tmpfs, int processes, long each)
      throws IOException {
    return new ReadyMemory(settings, tmpfs, processes * ((each + PART - 1) / PART * PART));
  }

  /**
   * Waits until the pool is full.
   *
   * @param size the size in the line that is printed if the pool is not full in time
   * @return whether the pool is full
   */
  boolean await(Size size, PrintStream out) throws IOException {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (used() < bytes) {
      if (System.nanoTime() - end > 0) {
        out.printf("  %s: the host memory pool was not filled in time%n", size);
        return false;
      }
      LockSupport.parkNanos(PAUSE);
    }
    settle();
    return true;
  }

  /** Waits until the pool is refilled after a suspend, as far as memory is free. */
  void settle() throws IOException {
    long end = System.nanoTime() + PATIENCE.toNanos();
    long last = used();
    for (int quiet = 0; quiet < QUIET_ROUNDS && System.nanoTime() - end < 0; quiet++) {
      LockSupport.parkNanos(PAUSE);
      long now = used();
      quiet = now == last ? quiet : -1;
      last = now;
    }
  }

  /** Returns the size of the pool's memory. Others may use the tmpfs too. */
  private long used() throws IOException {
    List<String> command = new ArrayList<>(List.of("stat", "-Lc", "%b"));
    List<Path> files = files();
    if (files.isEmpty()) {
      return 0;
    }
    files.forEach(file -> command.add(file.toString()));
    // For a file that the library has just closed it prints an error.
    Stream<String> blocks = ProgramRun.of(command).run().printed().lines();
    return blocks.filter(line -> line.matches("\\d+")).mapToLong(Long::parseLong).sum() * BLOCK;
  }

  /** Returns the open files of the pool, which have no name. */
  private List<Path> files() {
    long self = ProcessHandle.current().pid();
    return ProcFs.openFiles(self).stream()
        .filter(file -> file.target().startsWith(tmpfs + "/#"))
        .map(file -> ProcFs.file(self, "fd", Integer.toString(file.number())))
        .toList();
  }

  GpuCheckpoints checkpoints() {
    return checkpoints;
  }

  /**
   * Truncates the files of the pool: the library keeps them as long as the JVM lives, and the next
   * measurement needs the memory.
   */
  @Override
  public void close() throws IOException {
    settle();
    for (Path each : files()) {
      FileChannel.open(each, StandardOpenOption.WRITE).truncate(0).close();
    }
  }
}
