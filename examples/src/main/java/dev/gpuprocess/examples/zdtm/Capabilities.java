package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.internal.proc.ProcFs;

/** What this process may do. */
final class Capabilities {

  /** Setting limits of other users' processes above what they have. */
  static final int SYS_RESOURCE = 24;

  private Capabilities() {}

  /** Whether it has a capability. */
  static boolean has(int number) {
    String effective = ProcFs.status(ProcessHandle.current().pid()).getOrDefault("CapEff", "0");
    return (Long.parseUnsignedLong(effective.strip(), 16) >> number & 1) == 1;
  }
}
