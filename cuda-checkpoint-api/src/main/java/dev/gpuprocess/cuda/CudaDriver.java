package dev.gpuprocess.cuda;

import java.util.Map;

/**
 * The checkpoint functions of the CUDA driver, one method each, with no policy: every answer is
 * handed back as the driver gave it.
 *
 * <p>All methods may be called from any thread, on different processes in parallel. The driver
 * serves calls on one process one after the other, not always in the order in which they arrive,
 * also {@link #getState}: during a checkpoint or a restore, and while a lock waits for GPU work,
 * every other call waits until that has ended; a waiting lock's timeout does not run during that.
 * Every one of them <b>hangs for as long as its target is stopped</b>, whatever timeout it was
 * given, so callers run them on threads that they can abandon; {@link dev.gpuprocess.GpuProcess}
 * does.
 *
 * <p>All methods throw {@link dev.gpuprocess.error.MachineUnfitException} with reason
 * NO_CUDA_DRIVER when there is no libcuda, and with reason DRIVER_TOO_OLD when it lacks the
 * function.
 */
public interface CudaDriver {

  /**
   * The CUDA version that the driver supports ({@code cuDriverGetVersion}).
   *
   * @return 1000 x major + 10 x minor: 13000 for CUDA 13.0
   */
  int version();

  /**
   * Reads the state of a process ({@code cuCheckpointProcessGetState}). An operation that is under
   * way is never seen: the answer comes when it has ended, and is the state it led to.
   *
   * @param pid the process
   * @return its state
   */
  CudaAnswer<ProcessState> getState(int pid);

  /**
   * Finds the thread that must run for a restore to work ({@code
   * cuCheckpointProcessGetRestoreThreadId}).
   *
   * @param pid the process
   * @return the thread's id
   */
  CudaAnswer<Integer> getRestoreThreadId(int pid);

  /**
   * Stops the CUDA calls of a process and waits for its GPU work ({@code cuCheckpointProcessLock}).
   *
   * @param pid the process
   * @param timeoutMs how long to wait for GPU work in milliseconds; 0 waits without a limit
   * @return {@link CudaResult#NOT_READY} when the timeout expired
   */
  CudaResult lock(int pid, int timeoutMs);

  /**
   * Moves the GPU memory of a locked process to host memory ({@code
   * cuCheckpointProcessCheckpoint}).
   *
   * @param pid the process
   * @return the driver's answer
   */
  CudaResult checkpoint(int pid);

  /**
   * Moves the memory of a checkpointed process back to the GPU ({@code
   * cuCheckpointProcessRestore}); the process is locked then. A restore that answers {@link
   * CudaResult#OUT_OF_MEMORY} has lost the process: look at free memory first.
   *
   * @param pid the process
   * @param pairs where the memory of each GPU goes ({@code CUcheckpointGpuPair}); empty to go back
   *     where it was. Pairs need CUDA 13.0, and driver 580 refuses a partial list: one is needed
   *     for every GPU of the machine, including GPUs that map to themselves and GPUs that the
   *     process cannot see
   * @return the driver's answer
   */
  CudaResult restore(int pid, Map<GpuUuid, GpuUuid> pairs);

  /**
   * Lets the CUDA calls of a locked process go on ({@code cuCheckpointProcessUnlock}).
   *
   * @param pid the process
   * @return the driver's answer
   */
  CudaResult unlock(int pid);
}
