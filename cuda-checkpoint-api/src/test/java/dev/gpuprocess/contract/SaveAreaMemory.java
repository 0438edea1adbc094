package dev.gpuprocess.contract;

import dev.gpuprocess.internal.linux.HugeTmpfs;
import java.nio.file.Path;

/**
 * The tmpfs for the save areas of tests: that of huge pages which the library uses by default. In
 * the 4 KiB pages of {@code /dev/shm} a save area takes five times as long to make.
 */
public final class SaveAreaMemory {

  private SaveAreaMemory() {}

  /** Returns its directory, or {@code /dev/shm} without a tmpfs of huge pages. */
  public static Path directory() {
    return HugeTmpfs.directory().orElse(Path.of("/dev/shm"));
  }
}
