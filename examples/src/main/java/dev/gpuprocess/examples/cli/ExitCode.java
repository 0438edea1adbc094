package dev.gpuprocess.examples.cli;

import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.RetryLaterException;

/** The exit codes of {@code gpuprocess}: for failures, one for each group of exceptions. */
public enum ExitCode {
  /** The command is done. */
  DONE(0),
  /** An unexpected failure, or {@code doctor} found a problem. */
  PROBLEM(1),
  /** The arguments are invalid; nothing was done. */
  USAGE(2),
  /** The same command may succeed later: a timeout, a cancellation, another controller. */
  RETRY_LATER(3),
  /** The caller can mend the cause, such as a state, an option, an image or a directory. */
  FIX_AND_RETRY(4),
  /** The process does not exist, does not use CUDA, or cannot be checkpointed. */
  PROCESS_UNFIT(5),
  /** The machine lacks a driver, a CRIU, or what an image needs. */
  MACHINE_UNFIT(6);

  private final int code;

  ExitCode(int code) {
    this.code = code;
  }

  /** Returns the number that the shell sees. */
  public int code() {
    return code;
  }

  /** Returns the exit code of a failure. */
  static ExitCode of(Throwable failure) {
    if (failure instanceof CommandException refused) {
      return refused.exitCode();
    }
    if (failure instanceof RetryLaterException) {
      return RETRY_LATER;
    }
    if (failure instanceof FixAndRetryException) {
      return FIX_AND_RETRY;
    }
    if (failure instanceof ProcessUnfitException) {
      return PROCESS_UNFIT;
    }
    if (failure instanceof MachineUnfitException) {
      return MACHINE_UNFIT;
    }
    return PROBLEM;
  }

  /** Returns the reason of a failure, as JSON has it. */
  static String reason(Throwable failure) {
    if (failure instanceof CommandException refused) {
      return refused.reason();
    }
    return failure instanceof GpuCheckpointException known
        ? known.reason().name()
        : failure.getClass().getSimpleName();
  }
}
