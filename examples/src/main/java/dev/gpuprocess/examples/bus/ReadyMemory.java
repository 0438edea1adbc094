package dev.gpuprocess.examples.bus;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.options.HostMemory;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Settings whose host memory is there before a process is suspended. */
final class ReadyMemory implements AutoCloseable {

  /** In parts of this size it is kept ready. */
  private static final long PART = 512L << 20;

  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(10);
  private static final int QUIET_ROUNDS = 20;

  private final Path tmpfs;
  private final long bytes;
  private final long usedBefore;
  private final GpuCheckpoints checkpoints;

  private ReadyMemory(GpuCheckpoints settings, Path tmpfs, long bytes) throws IOException {
    this.tmpfs = tmpfs.toRealPath();
    this.bytes = bytes;
    this.usedBefore = used();
    this.checkpoints =
        settings.toBuilder().hostMemory(HostMemory.in(this.tmpfs).ready(bytes)).build();
  }

  /**
   * Begins to make it.
   *
   * @param settings all others
   * @param tmpfs where
   * @param processes for how many
   * @param each bytes for one of them
   */
  static ReadyMemory of(GpuCheckpoints settings, Path tmpfs, int processes, long each)
      throws IOException {
    return new ReadyMemory(settings, tmpfs, processes * ((each + PART - 1) / PART * PART));
  }

  /**
   * Waits until it is there.
   *
   * @param size for the line that is printed when it is not there in time
   * @return whether it is there
   */
  boolean await(Size size, PrintStream out) throws IOException {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (used() - usedBefore < bytes) {
      if (System.nanoTime() - end > 0) {
        out.printf("  %s: the memory that was to be kept ready was not made in time%n", size);
        return false;
      }
      LockSupport.parkNanos(PAUSE);
    }
    settle();
    return true;
  }

  /** Waits until what a suspend has taken is made anew, as far as there is room for it. */
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

  private long used() throws IOException {
    FileStore store = Files.getFileStore(tmpfs);
    return store.getTotalSpace() - store.getUnallocatedSpace();
  }

  GpuCheckpoints checkpoints() {
    return checkpoints;
  }

  /**
   * Gives back what is ready. The library keeps it for as long as the JVM lives, and the next
   * measurement needs the room: so its files, which have no name, are emptied.
   */
  @Override
  public void close() throws IOException {
    settle();
    try (DirectoryStream<Path> open = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
      for (Path each : open) {
        if (Files.isSymbolicLink(each)
            && Files.readSymbolicLink(each).toString().startsWith(tmpfs + "/#")) {
          FileChannel.open(each, StandardOpenOption.WRITE).truncate(0).close();
        }
      }
    }
  }
}
