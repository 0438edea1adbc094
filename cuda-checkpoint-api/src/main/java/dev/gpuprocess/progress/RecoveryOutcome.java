package dev.gpuprocess.progress;

/** What a recovery found of one process, and did. */
public enum RecoveryOutcome {
  /** It was locked and is unlocked. */
  UNLOCKED,
  /** It is checkpointed, and can be resumed. */
  SUSPENDED,
  /** It runs; nothing was left to do. So it is told also where its controller lives. */
  RUNNING,
  /** It has ended; whether an image of it exists tells the image's directory. */
  GONE,
  /** CRIU had restored it by half; that half was ended. The image is still there. */
  HALF_RESTORED_ENDED,
  /** The driver calls it FAILED: it can only be ended. */
  FAILED,
  /** A live controller is at it; it was not touched. */
  IN_USE,
  /** It is stopped or does not answer; it was not touched, and the next recovery finds it. */
  UNREACHABLE
}
