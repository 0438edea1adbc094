package dev.gpuprocess.error;

/** What became of a process tree when a dump or restore failed, as the kernel shows it. */
public enum Fate {
  /** All of it runs; no process of it is traced, and no kill is pending. */
  RUNNING_AGAIN,
  /** Its images are complete, and the tree is gone, or was killed and is being torn down. */
  GONE_AND_DURABLE,
  /** It had ended before, or ended without this operation; it has no complete image. */
  ENDED,
  /** Nothing of the restored tree is left; what CRIU had built of it was killed. */
  HALF_RESTORED_REMOVED,
  /** Could not be found out: look at the process itself. */
  UNKNOWN
}
