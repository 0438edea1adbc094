package dev.gpuprocess.internal.engine;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.internal.text.Printable;
import java.nio.file.Path;
import java.time.Duration;

/** Creates the exception for an answer of the driver: what it means for the process. */
final class CudaFailures {

  /**
   * {@code CUDA_ERROR_UNKNOWN}: the answer of driver 580 to every checkpoint after a refused one.
   */
  private static final int UNKNOWN = 999;

  private CudaFailures() {}

  /**
   * Creates the exception for an answer.
   *
   * @param function the driver call: getState, lock, checkpoint, restore or unlock
   * @param failure with the driver's answer in it
   */
  static GpuCheckpointException of(String function, TrackedProcess process, Failure failure) {
    CudaResult result = requireNonNull(failure.cudaResult());
    String name = "process " + process.pid();
    // While a process is torn down the driver answers as if it had no CUDA state, or could not be
    // reached.
    if (process.isGone()) {
      return new NoSuchProcessException(name + " ended during " + function, failure);
    }
    boolean restoring = function.equals("restore");
    if (result.equals(CudaResult.NOT_INITIALIZED)) {
      return new NotCudaProcessException(
          name + " has no CUDA state: it is no CUDA program, or has not called cuInit yet",
          failure);
    }
    if (result.equals(CudaResult.NOT_SUPPORTED)) {
      return new ProcessUnfitException(
          ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
          notSupported(function, name, result),
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
              + name
              + ": after it has refused managed memory once, it answers so until the program is"
              + " started again; otherwise look at the kernel's log (dmesg)",
          failure);
    }
    if (result.equals(CudaResult.ILLEGAL_STATE)) {
      return new FixAndRetryException(
          FixAndRetryException.Reason.WRONG_STATE,
          "%s is %s, and %s is not legal there: something else moved it; go on with GpuProcess.inspect(%s)"
              .formatted(name, state(failure), function, process.pid()),
          failure);
    }
    if (result.equals(CudaResult.INVALID_VALUE) && restoring) {
      return new FixAndRetryException(
          FixAndRetryException.Reason.UNKNOWN_GPU,
          "a GPU pair for "
              + name
              + " names a GPU that it does not use or that is not here; it is still checkpointed:"
              + " list every GPU of the machine once, by its own UUID",
          failure);
    }
    if (restoring && result.equals(CudaResult.OUT_OF_MEMORY)) {
      return outOfMemory(name, process, failure);
    }
    if (result.equals(CudaResult.OUT_OF_MEMORY)) {
      return new InsufficientGpuMemoryException(
          "the driver ran out of memory in " + function + " of " + name + ": free some",
          failure,
          null);
    }
    if (restoring
        && result.equals(CudaResult.OPERATING_SYSTEM)
        && failure.after() == ProcessState.CHECKPOINTED) {
      if (process.isPoisoned()) {
        return poisoned(process, failure);
      }
      return new ProcessUnfitException(
          ProcessUnfitException.Reason.DRIVER_ERROR,
          "the driver answers %s to restore of %s twice, and it stays checkpointed: try again; if that never works, an earlier restore has run out of GPU memory, and only an image of the process can be restored"
              .formatted(result, name),
          failure);
    }
    if (result.equals(CudaResult.OPERATING_SYSTEM)) {
      return new FixAndRetryException(
          FixAndRetryException.Reason.PROCESS_UNREACHABLE,
          "the driver cannot reach "
              + name
              + ": run as root or as the user it runs as, on the machine's own pid namespace",
          failure);
    }
    return new ProcessUnfitException(
        ProcessUnfitException.Reason.DRIVER_ERROR,
        "the driver answers %s to %s of %s, which is %s now"
            .formatted(result, function, name, state(failure)),
        failure);
  }

  private static String state(Failure failure) {
    return failure.after() == null ? "in a state that cannot be read" : failure.after().toString();
  }

  private static String notSupported(String function, String name, CudaResult result) {
    return switch (function) {
      case "checkpoint" ->
          "the driver cannot checkpoint %s, because it uses something that a checkpoint does not include, such as managed memory: run it without that"
              .formatted(name);
      case "restore" ->
          "the driver cannot restore %s as requested: other GPUs than before need driver 580 or later, and memory that it shares with other processes, as ranks of NCCL may, needs driver 610"
              .formatted(name);
      case "getState" ->
          "the driver answers %s to getState of %s: it does not support its checkpoint functions for this process; look at the kernel's log (dmesg)"
              .formatted(result, name);
      default ->
          "the driver answers %s to %s of %s: it does not support its checkpoint functions for this process; look at the kernel's log (dmesg)"
              .formatted(result, function, name);
    };
  }

  /**
   * Creates the exception for a lock whose timeout passed before the GPU work of the process ended.
   *
   * @param advice an addition to the message, or empty
   */
  static LockTimeoutException lockTimeout(
      TrackedProcess process, Duration timeout, Failure failure, String advice) {
    return new LockTimeoutException(
        "GPU work of process %s did not end within the lock's timeout of %s; it continues to run: allow more time, or try again between its kernels%s"
            .formatted(process.pid(), Printable.of(timeout), advice),
        failure);
  }

  /**
   * Measured on driver 580: the process stays checkpointed, and every later restore answers
   * OPERATING_SYSTEM.
   */
  private static GpuCheckpointException outOfMemory(
      String name, TrackedProcess process, Failure failure) {
    if (failure.after() == ProcessState.CHECKPOINTED) {
      return new GpuMemoryLostException(
          "the driver ran out of GPU memory in restore of %s, which stays checkpointed, and refuses every later restore of it: %s"
              .formatted(name, cure(process)),
          failure);
    }
    return new InsufficientGpuMemoryException(
        "the driver ran out of GPU memory in restore of %s, and its state is %s now: GpuProcess.inspect(%s) shows whether it is on the GPU"
            .formatted(
                name, failure.after() == null ? "not known" : failure.after(), process.pid()),
        failure,
        null);
  }

  /** Creates the exception for a process that an earlier restore has poisoned. */
  static GpuMemoryLostException poisoned(TrackedProcess process, Failure failure) {
    return new GpuMemoryLostException(
        "process %s is checkpointed, and the driver refuses to restore it because an earlier restore ran out of GPU memory: %s"
            .formatted(process.pid(), cure(process)),
        failure);
  }

  private static String cure(TrackedProcess process) {
    Path image = process.fallbackImage();
    return "end it and restore %s (GpuProcess.inspect(%s) gives a PoisonedProcess, whose replaceWith does both)"
        .formatted(image == null ? "an image of it" : "its image " + image, process.pid());
  }
}
