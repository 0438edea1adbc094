package dev.gpuprocess.internal.proc;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;

/**
 * The memory of the host, or of a control group.
 *
 * @param available how much can be used without swapping, in bytes
 * @param swap how much swap space is free, in bytes
 */
public record HostMemory(long available, long swap) {

  /** The file that describes the host. */
  public static final Path FILE = ProcFs.kernel("meminfo");

  /**
   * Reads a file like {@code /proc/meminfo}.
   *
   * @param file the file
   * @return its content
   * @throws IOException when it cannot be read
   */
  public static HostMemory read(Path file) throws IOException {
    String text = Files.readString(file);
    return new HostMemory(bytes(text, "MemAvailable"), bytes(text, "SwapFree"));
  }

  private static long bytes(String text, String name) {
    return ProcFields.bytes(text, Set.of(name)).orElse(0);
  }

  /** Returns how many bytes can be used before the kernel kills processes. */
  public long room() {
    return available + swap;
  }
}
