package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.doctor.Finding.Severity;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;

/** Checks that a CRIU started by this JVM has the capabilities it needs. */
final class RightsCheck {

  private RightsCheck() {}

  static void look(FindingCollector findings) {
    Capabilities ours = Capabilities.of(ProcessHandle.current().pid());
    if (!ours.handsOn(Capability.SYS_ADMIN) && !ours.handsOn(Capability.CHECKPOINT_RESTORE)) {
      findings.add(
          Severity.PROBLEM,
          "rights",
          "CRIU started from here has neither CAP_SYS_ADMIN nor CAP_CHECKPOINT_RESTORE, unless its"
              + " program file grants them",
          "run as root, or with one of these capabilities");
    }
  }
}
