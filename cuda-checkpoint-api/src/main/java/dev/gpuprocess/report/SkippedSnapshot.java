package dev.gpuprocess.report;

/**
 * A snapshot of a series that was due and was left out.
 *
 * @param reason why, for programs
 * @param message why, in one sentence
 */
public record SkippedSnapshot(Reason reason, String message) {

  /** Why a snapshot is left out. */
  public enum Reason {
    /** The one before is still being made. */
    PREVIOUS_RUNNING,
    /** The process is locked or suspended. */
    SUSPENDED,
    /** Another verb was at work on it, or a debugger traces it. */
    BUSY,
    /** This JVM stood still when it was due. */
    MISSED
  }
}
