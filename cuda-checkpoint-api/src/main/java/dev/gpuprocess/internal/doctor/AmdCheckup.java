package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.AmdTree;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.GpuPlugin;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Checks the requirements of processes on AMD GPUs. */
final class AmdCheckup {

  static final String SUBJECT = "AMD GPUs";

  /** The device file through which ROCm uses them. */
  static final Path DEVICE = Path.of("/dev/kfd");

  private final Checkup checkup;
  private final EngineContext context;
  private final Path device;

  /**
   * Creates the checks.
   *
   * @param device {@link #DEVICE}, or its replacement in a test
   */
  AmdCheckup(Checkup checkup, EngineContext context, Path device) {
    this.checkup = checkup;
    this.context = context;
    this.device = device;
  }

  /** Checks the machine. Without such a GPU nothing is missing. */
  void look(CriuDriver criu) {
    boolean present = Files.exists(device);
    Optional<Path> plugin = Optional.empty();
    String missing = "";
    try {
      plugin = Optional.of(criu.locate(GpuPlugin.AMDGPU));
    } catch (GpuCheckpointException e) {
      if (e.reason() != MachineUnfitException.Reason.PLUGIN_MISSING
          && e.reason() != FixAndRetryException.Reason.UNSUPPORTED_OPTION) {
        throw e;
      }
      missing = String.valueOf(e.getMessage());
    }
    String here = present ? device + " exists" : "there is no " + device;
    if (plugin.isPresent()) {
      checkup.ok(SUBJECT, "%s, and CRIU's plugin for them is %s".formatted(here, plugin.get()));
    } else if (present) {
      checkup.warning(SUBJECT, here + ", and no process on them can be dumped", missing);
    } else {
      checkup.ok(SUBJECT, here);
    }
  }

  /** Checks the plugin that a dump of an AMD process needs. */
  void lookAtPlugin(CriuDriver criu) {
    checkup
        .query(SUBJECT, context.timeouts().call(), () -> criu.locate(GpuPlugin.AMDGPU))
        .ifPresent(found -> checkup.ok(SUBJECT, "CRIU's plugin for them is " + found));
  }

  /** Returns the device; empty also if it is not known, which other checks report. */
  private static Optional<String> visibleDevice(ProcessIdentity root) {
    return Unreadable.as(Optional.empty(), () -> AmdTree.deviceOf(root.pid()));
  }

  /**
   * Checks a process tree.
   *
   * @return whether it is an AMD process; false if that cannot be read
   */
  boolean isAmdProcess(ProcessIdentity root) {
    return checkup
        .query(root, SUBJECT, context.timeouts().call(), () -> visibleDevice(root).orElse(null))
        .map(
            held -> {
              checkup.ok(
                  SUBJECT,
                  "it is an AMD process, as it has %s open or mapped: AmdProcess.of(%s) can dump and snapshot it, AmdImage can restore it, and it cannot be suspended"
                      .formatted(held, root.pid()));
              return true;
            })
        .orElse(false);
  }
}
