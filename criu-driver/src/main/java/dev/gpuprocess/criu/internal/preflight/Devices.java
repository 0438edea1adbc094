package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.GpuFiles;

/** Device files: CRIU dumps a few that have no state of their own. */
final class Devices {

  private static final int MEMORY_MAJOR = 1;
  private static final int MISC_MAJOR = 10;
  private static final int ZERO_MINOR = 5;
  private static final int TUN_MINOR = 200;
  private static final int AUTOFS_MINOR = 235;

  private Devices() {}

  /**
   * Returns whether CRIU dumps the device, such as {@code /dev/null}; terminals are not considered
   * here.
   */
  static boolean isDumped(FileNode device) {
    return device.major() == MEMORY_MAJOR
        || (device.major() == MISC_MAJOR
            && (device.minor() == TUN_MINOR || device.minor() == AUTOFS_MINOR));
  }

  /** Returns whether this is {@code /dev/zero}, whose mappings are anonymous memory. */
  static boolean isZero(FileNode node) {
    return node.isCharacterDevice() && node.major() == MEMORY_MAJOR && node.minor() == ZERO_MINOR;
  }

  static void refuse(FindingCollector findings, ResourceRef place, String name, FileNode device) {
    findings.problem(
        place,
        name,
        "is a device (%s:%s) that CRIU does not dump".formatted(device.major(), device.minor()),
        GpuFiles.isNvidiaDevice(name)
            ? "suspend the process first; a forked child loses it by DumpOptions.releaseInheritedGpu(true)"
                + " or, if started with spawn or forkserver, never has it; end a process that uses NVML but not CUDA"
            : GpuFiles.isAmdDevice(name)
                ? "dump the tree with AmdProcess, which has CRIU's plugin for AMD GPUs loaded, if it is one's device; else close it first"
                : "close it first");
  }
}
