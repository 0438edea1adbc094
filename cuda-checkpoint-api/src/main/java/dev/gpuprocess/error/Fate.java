package dev.gpuprocess.error;

/** What became of a process tree when a dump or restore failed, found out from the kernel. */
public enum Fate {
  /** All of it runs; nobody traces it and no kill is on its way. */
  RUNNING_AGAIN,
  /** Its images are complete, and it is gone or was killed and is on its way out. */
  GONE_AND_DURABLE,
  /** It had ended, or ended by itself; there are no complete images of it. */
  ENDED,
  /** Nothing of what was restored is left; what was half built was ended. */
  HALF_RESTORED_REMOVED,
  /** None of this is known: look at the process itself. */
  UNKNOWN
}
