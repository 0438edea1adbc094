package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.doctor.Finding.Severity;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;

/** Whether a CRIU started by this JVM may do its work. */
final class RightsCheck {

  private RightsCheck() {}

  static void look(FindingCollector troubles) {
    Capabilities ours = Capabilities.of(ProcessHandle.current().pid());
    if (!ours.handsOn(Capability.SYS_ADMIN) && !ours.handsOn(Capability.CHECKPOINT_RESTORE)) {
      troubles.add(
          Severity.PROBLEM,
          "rights",
          "CRIU started from here has neither CAP_SYS_ADMIN nor CAP_CHECKPOINT_RESTORE, unless its"
              + " program brings them",
          "run as root, or with one of these capabilities");
    }
  }
}
