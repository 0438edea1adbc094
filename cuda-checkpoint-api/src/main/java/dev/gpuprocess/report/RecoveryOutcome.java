package dev.gpuprocess.report;

/** What a recovery found out about one process, and did. */
public enum RecoveryOutcome {
  /** It was locked, and was unlocked. */
  UNLOCKED,
  /** It or a member of its tree is checkpointed; it can be resumed, together with its job. */
  SUSPENDED,
  /** It runs; there was nothing to do. Also told where its controller lives. */
  RUNNING,
  /** It has ended; look in the image directory for an image of it. */
  GONE,
  /** CRIU had restored it only partly; that part was killed. The image is still there. */
  HALF_RESTORED_ENDED,
  /**
   * It was launched to end with its controller, and outlived that and the guard that was to end it;
   * it was killed, and so was what belongs to it.
   */
  ENDED_WITH_CONTROLLER,
  /**
   * It is checkpointed, and the driver refuses every restore because an earlier one ran out of GPU
   * memory: it can only be ended, and an image of it restored. Also reported while the controller
   * that ran into this is alive.
   */
  POISONED,
  /** The driver reports FAILED: the process can only be ended. */
  FAILED,
  /** Another controller, which is alive, works on it; it was not touched. */
  IN_USE,
  /**
   * It is stopped or the driver does not answer; it was not touched, and the next recovery finds it
   * again.
   */
  UNREACHABLE
}
