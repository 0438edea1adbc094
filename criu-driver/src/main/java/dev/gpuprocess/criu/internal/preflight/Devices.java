package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.proc.FileNode;

/** Device files: CRIU dumps a few that have no state of their own. */
final class Devices {

  private static final int MEMORY_MAJOR = 1;
  private static final int MISC_MAJOR = 10;
  private static final int ZERO_MINOR = 5;
  private static final int TUN_MINOR = 200;
  private static final int AUTOFS_MINOR = 235;

  private Devices() {}

  /** Such as {@code /dev/null}; not terminals. */
  static boolean isDumped(FileNode device) {
    return device.major() == MEMORY_MAJOR
        || (device.major() == MISC_MAJOR
            && (device.minor() == TUN_MINOR || device.minor() == AUTOFS_MINOR));
  }

  /** Mapping this one gives anonymous memory. */
  static boolean isZero(FileNode node) {
    return node.isCharacterDevice() && node.major() == MEMORY_MAJOR && node.minor() == ZERO_MINOR;
  }

  static void refuse(FindingCollector troubles, ResourceRef place, String name, FileNode device) {
    troubles.problem(
        place,
        name,
        "is a device (%s:%s) that CRIU does not dump".formatted(device.major(), device.minor()),
        name.contains("/dev/nvidia")
            ? "suspend the process first; a forked child cannot let go of it, start it with spawn or"
                + " forkserver, nor can one that uses NVML but not CUDA, end it"
            : "close it first");
  }
}
