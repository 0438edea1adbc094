package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import java.util.List;

/**
 * A process that uses an NVIDIA GPU, in a known state. Each state has its own type, and a verb
 * exists only on the state where it is legal and returns the next state, so a wrong sequence does
 * not compile:
 *
 * <pre>{@code
 * GpuProcess.of(pid).lock().checkpoint()
 * }</pre>
 *
 * <p>State objects are immutable and may be shared between threads. One that was left behind,
 * because its process moved on, refuses with {@link dev.gpuprocess.error.StaleStateException}, also
 * when another JVM moved it. One verb at a time works on a process: a second one that leads away
 * from running is refused with {@link dev.gpuprocess.error.OperationInProgressException}, one that
 * leads back waits for up to {@link Timeouts#call()} first. Closing does so too; when even then
 * another verb of this JVM is at work, the process is brought back when that ends.
 *
 * <p>Every verb first makes sure that the pid still is the process it was, and that it is not
 * stopped; it may throw {@link dev.gpuprocess.error.NoSuchProcessException}, {@link
 * dev.gpuprocess.error.ProcessStoppedException}, {@link
 * dev.gpuprocess.error.OperationTimedOutException} and {@link
 * dev.gpuprocess.error.CudaDriverException} besides what it names.
 */
public sealed interface GpuProcess
    permits RunningProcess, LockedProcess, CheckpointedProcess, FailedProcess, PoisonedProcess {

  /**
   * Takes a running process, with the drivers of this machine.
   *
   * @param pid a process that uses CUDA
   * @return the process
   * @throws dev.gpuprocess.error.NoSuchProcessException when there is no such process
   * @throws dev.gpuprocess.error.NotCudaProcessException when it has no CUDA state
   * @throws dev.gpuprocess.error.WrongStateException when it is locked or checkpointed; use {@link
   *     #inspect}
   * @throws dev.gpuprocess.error.NoCudaDriverException when there is no libcuda
   * @throws dev.gpuprocess.error.DriverTooOldException when the driver is older than 570
   */
  static RunningProcess of(long pid) {
    return GpuCheckpoints.standard().process(pid);
  }

  /**
   * Takes a process in whatever state it is, with the drivers of this machine; for tools that come
   * in the middle. It only reads, is in nobody's way, and waits for nobody: while another
   * controller is at work it gives the state of the moment, and the object is stale when that one
   * moves on.
   *
   * @param pid a process that uses CUDA
   * @return an object of its state's type
   * @throws dev.gpuprocess.error.NoSuchProcessException when there is no such process
   * @throws dev.gpuprocess.error.NotCudaProcessException when it has no CUDA state
   * @throws dev.gpuprocess.error.OperationInProgressException when another controller is in the
   *     middle of a verb, for longer than {@link Timeouts#call()}: ask again when that is done
   * @throws dev.gpuprocess.error.WrongStateException when the driver says that a checkpoint or
   *     restore is under way, which those up to 580 never do
   */
  static GpuProcess inspect(long pid) {
    return GpuCheckpoints.standard().inspect(pid);
  }

  /**
   * Which process this is.
   *
   * @return pid and start time
   */
  ProcessIdentity identity();

  /**
   * The process id.
   *
   * @return greater than 0
   */
  default int pid() {
    return identity().pid();
  }

  /**
   * The state this object stands for. The process itself may have moved on.
   *
   * @return the state that the driver gives such a process
   */
  ProcessState state();

  /**
   * What was done to get here since the process was taken, oldest first.
   *
   * @return the steps with their durations and bytes
   */
  List<Step> steps();
}
