package dev.gpuprocess.internal.engine;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CudaDriverException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.WrongStateException;
import dev.gpuprocess.internal.text.Printable;
import java.nio.file.Path;
import java.time.Duration;

/** Turns an answer of the driver into the exception that says what it means for the process. */
final class CudaFailures {

  /**
   * {@code CUDA_ERROR_UNKNOWN}: what driver 580 answers to every checkpoint after a refused one.
   */
  private static final int UNKNOWN = 999;

  private CudaFailures() {}

  /**
   * Makes the exception for an answer.
   *
   * @param function the driver call: getState, lock, checkpoint, restore or unlock
   * @param target on whom
   * @param failure with the driver's answer in it
   */
  static GpuCheckpointException of(String function, TrackedProcess target, Failure failure) {
    CudaResult result = requireNonNull(failure.cudaResult());
    String who = "process " + target.pid();
    // While a process is torn down the driver answers as if it had no CUDA state, or could not be
    // reached.
    if (target.isGone()) {
      return new NoSuchProcessException(who + " ended during " + function, failure);
    }
    boolean restoring = function.equals("restore");
    if (result.equals(CudaResult.NOT_INITIALIZED)) {
      return new NotCudaProcessException(
          who + " has no CUDA state: it is no CUDA program, or has not called cuInit yet", failure);
    }
    if (result.equals(CudaResult.NOT_SUPPORTED)) {
      return new ProcessUnfitException(
          ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
          notSupported(function, who, result),
          failure);
    }
    if (result.code() == UNKNOWN
        && function.equals("checkpoint")
        && failure.after() == ProcessState.LOCKED) {
      return new ProcessUnfitException(
          ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
          "the driver answers "
              + result
              + " to checkpoint of "
              + who
              + ": it does so for good after it has refused managed memory once, and then only a new"
              + " start of the program helps; otherwise look at the kernel's log (dmesg)",
          failure);
    }
    if (result.equals(CudaResult.ILLEGAL_STATE)) {
      return new WrongStateException(
          "%s is %s, and %s is not legal there: something else moved it; go on with GpuProcess.inspect(%s)"
              .formatted(who, state(failure), function, target.pid()),
          failure);
    }
    if (result.equals(CudaResult.INVALID_VALUE) && restoring) {
      return new FixAndRetryException(
          FixAndRetryException.Reason.UNKNOWN_GPU,
          "a GPU pair for "
              + who
              + " names a GPU that it does not use or that is not here; it is still checkpointed:"
              + " list every GPU of the machine once, by its own UUID",
          failure);
    }
    if (restoring && result.equals(CudaResult.OUT_OF_MEMORY)) {
      return outOfMemory(who, target, failure);
    }
    if (result.equals(CudaResult.OUT_OF_MEMORY)) {
      return new InsufficientGpuMemoryException(
          "the driver ran out of memory in " + function + " of " + who + ": free some",
          failure,
          null);
    }
    if (restoring
        && result.equals(CudaResult.OPERATING_SYSTEM)
        && failure.after() == ProcessState.CHECKPOINTED) {
      if (target.isPoisoned()) {
        return poisoned(target, failure);
      }
      return new CudaDriverException(
          "the driver answers %s to restore of %s twice, and it stays checkpointed: try again; if that never works, a restore of it has run out of GPU memory before, and only an image of it brings it back"
              .formatted(result, who),
          failure);
    }
    if (result.equals(CudaResult.OPERATING_SYSTEM)) {
      return new FixAndRetryException(
          FixAndRetryException.Reason.PROCESS_UNREACHABLE,
          "the driver cannot reach "
              + who
              + ": run as root or as the user it runs as, on the machine's own pid namespace",
          failure);
    }
    return new CudaDriverException(
        "the driver answers %s to %s of %s, which is %s now"
            .formatted(result, function, who, state(failure)),
        failure);
  }

  private static String state(Failure failure) {
    return failure.after() == null ? "in a state that cannot be read" : failure.after().toString();
  }

  private static String notSupported(String function, String who, CudaResult result) {
    return switch (function) {
      case "checkpoint" ->
          "the driver cannot checkpoint %s, because it uses something that a checkpoint does not carry, such as managed memory: run it without that"
              .formatted(who);
      case "restore" ->
          "the driver cannot restore %s as it was asked to: other GPUs than before need driver 580 or later, and memory that it shares with other processes, as ranks of NCCL may, needs driver 610"
              .formatted(who);
      case "getState" ->
          "the driver answers %s when it is asked for the state of %s: it does not support its checkpoint functions for this process; look at the kernel's log (dmesg)"
              .formatted(result, who);
      default ->
          "the driver answers %s to %s of %s: it does not support its checkpoint functions for this process; look at the kernel's log (dmesg)"
              .formatted(result, function, who);
    };
  }

  /**
   * For a lock whose timeout passed before the GPU work of the process ended.
   *
   * @param advice more to say, or empty
   */
  static LockTimeoutException lockTimeout(
      TrackedProcess target, Duration timeout, Failure failure, String advice) {
    return new LockTimeoutException(
        "GPU work of process %s did not end within the lock's timeout of %s; it runs on: allow more time, or try again between its kernels%s"
            .formatted(target.pid(), Printable.of(timeout), advice),
        failure);
  }

  /**
   * Measured on driver 580: the process stays checkpointed, and every later restore answers
   * OPERATING_SYSTEM.
   */
  private static GpuCheckpointException outOfMemory(
      String who, TrackedProcess target, Failure failure) {
    if (failure.after() == ProcessState.CHECKPOINTED) {
      return new GpuMemoryLostException(
          "the driver ran out of GPU memory in restore of %s, which stays checkpointed, and refuses every later restore of it: %s"
              .formatted(who, cure(target)),
          failure);
    }
    return new InsufficientGpuMemoryException(
        "the driver ran out of GPU memory in restore of %s, and its state is %s now: look with GpuProcess.inspect(%s) whether it came back"
            .formatted(who, failure.after() == null ? "not known" : failure.after(), target.pid()),
        failure,
        null);
  }

  /** For a process that an earlier restore has poisoned. */
  static GpuMemoryLostException poisoned(TrackedProcess target, Failure failure) {
    return new GpuMemoryLostException(
        "process %s is checkpointed, and the driver refuses to restore it because an earlier restore ran out of GPU memory: %s"
            .formatted(target.pid(), cure(target)),
        failure);
  }

  private static String cure(TrackedProcess target) {
    Path image = target.fallbackImage();
    return "end it and restore %s (GpuProcess.inspect(%s) gives a PoisonedProcess, whose replaceWith does both)"
        .formatted(image == null ? "an image of it" : "its image " + image, target.pid());
  }
}
