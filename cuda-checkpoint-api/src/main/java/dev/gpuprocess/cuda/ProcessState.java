package dev.gpuprocess.cuda;

/**
 * The state of a process as the driver reports it ({@code CUprocessState}).
 *
 * <p>The numbers are the driver's. CHECKPOINTING and RESTORING exist in the headers of CUDA 13.4
 * and later, for checkpoints and restores with custom storage, which take two calls.
 */
public enum ProcessState {
  /** CUDA calls go through. */
  RUNNING(0),
  /** CUDA calls wait; GPU memory is still on the GPU. */
  LOCKED(1),
  /** CUDA calls wait; GPU memory is in host memory and the GPU is free. */
  CHECKPOINTED(2),
  /** An uncorrectable error occurred during a checkpoint or restore. */
  FAILED(3),
  /** A checkpoint with custom storage is under way. */
  CHECKPOINTING(4),
  /** A restore with custom storage is under way. */
  RESTORING(5),
  /** A number that this library does not know: the driver is newer. */
  UNKNOWN(-1);

  private final int number;

  ProcessState(int number) {
    this.number = number;
  }

  /**
   * Finds the state for a number of the driver.
   *
   * @param number what {@code cuCheckpointProcessGetState} wrote
   * @return the state, {@link #UNKNOWN} for a number without one
   */
  public static ProcessState of(int number) {
    for (ProcessState state : values()) {
      if (state.number == number) {
        return state;
      }
    }
    return UNKNOWN;
  }
}
