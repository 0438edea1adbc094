package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import java.util.List;

/**
 * A process that uses an NVIDIA GPU, in a known state. Each state has its own type. A verb exists
 * only on the state in which it is legal, and returns an object of the next state, so a wrong
 * sequence does not compile:
 *
 * <pre>{@code
 * GpuProcess.of(pid).lock().checkpoint()
 * }</pre>
 *
 * <p>State objects are immutable and may be shared between threads. Once the process has moved on,
 * whether by a verb of this JVM or of another one, the objects of its earlier states are stale:
 * their verbs throw {@link dev.gpuprocess.error.StaleStateException}.
 *
 * <p>One verb at a time works on a process. While one does, a verb that would take the process
 * further from running is refused with {@link dev.gpuprocess.error.OperationInProgressException}; a
 * verb that brings it back first waits for up to {@link Timeouts#call()}. So does closing; and if
 * another verb of this JVM is still at work then, the process is brought back when that verb ends.
 *
 * <p>Every verb first checks that the pid still belongs to the same process, and that the process
 * is not stopped. Besides the exceptions it names, it may throw {@link
 * dev.gpuprocess.error.NoSuchProcessException}, {@link
 * dev.gpuprocess.error.ProcessStoppedException}, {@link
 * dev.gpuprocess.error.OperationTimedOutException} and {@link
 * dev.gpuprocess.error.CudaDriverException}.
 */
public sealed interface GpuProcess
    permits RunningProcess, LockedProcess, CheckpointedProcess, FailedProcess, PoisonedProcess {

  /**
   * Takes a running process, with the drivers of this machine.
   *
   * @param pid a process that uses CUDA
   * @return the process
   * @throws dev.gpuprocess.error.NoSuchProcessException when there is no such process
   * @throws dev.gpuprocess.error.NotCudaProcessException when it does not use CUDA
   * @throws dev.gpuprocess.error.WrongStateException when it is locked or checkpointed and no verb
   *     is under way; use {@link #inspect}
   * @throws dev.gpuprocess.error.OperationInProgressException as {@link #inspect}, and when a verb
   *     is under way that has taken it from running, in whatever JVM
   * @throws dev.gpuprocess.error.NoCudaDriverException when there is no libcuda
   * @throws dev.gpuprocess.error.DriverTooOldException when the driver is older than 570
   */
  static RunningProcess of(long pid) {
    return GpuCheckpoints.standard().process(pid);
  }

  /**
   * Takes a process in whatever state it is in, with the drivers of this machine; for tools that
   * did not suspend it themselves. It only reads, and delays no verb.
   *
   * <p>The state is that of the moment, also while another controller is between two verbs; when
   * that controller moves the process, the object becomes stale. While CRIU works on the process,
   * or the driver is in the middle of a lock, checkpoint or restore, the state cannot be read: this
   * method waits for up to {@link Timeouts#call()}, and then throws an exception that says which
   * verb is under way and whose it is.
   *
   * <p>A checkpointed process that the driver refuses to restore, because an earlier restore ran
   * out of GPU memory, is a {@link PoisonedProcess}. The journal in the {@linkplain
   * GpuCheckpoints#stateDirectory() state directory} tells which process is one.
   *
   * @param pid a process that uses CUDA
   * @return an object of the type of its state
   * @throws dev.gpuprocess.error.NoSuchProcessException when there is no such process
   * @throws dev.gpuprocess.error.NotCudaProcessException when it does not use CUDA
   * @throws dev.gpuprocess.error.ProcessStoppedException when it is stopped: the driver would not
   *     answer
   * @throws dev.gpuprocess.error.OperationInProgressException when a verb, of this JVM or another,
   *     was under way for longer than {@link Timeouts#call()}: ask again when it is done
   * @throws dev.gpuprocess.error.OperationTimedOutException when the driver did not answer within
   *     {@link Timeouts#call()} and no verb is known to be under way
   * @throws dev.gpuprocess.error.WrongStateException when the driver reports a checkpoint or
   *     restore under way, which drivers up to 580 never do
   */
  static GpuProcess inspect(long pid) {
    return GpuCheckpoints.standard().inspect(pid);
  }

  /**
   * Which process this is.
   *
   * @return its pid and start time
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
   * The state that this object stands for. The process itself may have moved on.
   *
   * @return the state as the driver names it
   */
  ProcessState state();

  /**
   * The steps that led here since the process was last taken from where it ran, oldest first.
   *
   * @return the steps with their durations and bytes
   */
  List<Step> steps();
}
