package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.ProcessMember;
import dev.gpuprocess.report.Step;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * A process with its descendants, in a known state. Those of them that have CUDA state, as the
 * driver reports it, are its members and are moved together: a single CUDA process is a tree with
 * one member, and a launcher with eight ranks is one with eight. Each state has its own type. A
 * verb exists only on the state in which it is legal, and returns an object of the next state, so a
 * wrong sequence does not compile:
 *
 * <pre>{@code
 * GpuProcess.of(pid).lock().checkpoint()
 * }</pre>
 *
 * <p>The tree is searched again after the members are locked, since processes start and exit. A
 * member whose parent has exited stays a member while this object or its journal entry exists.
 *
 * <p>All members are locked at the same time, so that ranks that wait for each other stop together,
 * and checkpointed side by side. GPU memory for the way back is reserved for all or for none, and
 * all are restored before any is unlocked. A verb that leads away from running and fails for one
 * member is undone for all. A verb that leads back and fails keeps what it has done: it can be
 * called again, and leaves out the members that are further. Whatever fails, {@link
 * dev.gpuprocess.error.GpuCheckpointException#tree()} has where each of several members was left;
 * several failures are one exception with the others suppressed in it.
 *
 * <p>State objects are immutable and may be shared between threads. Once the process has moved on,
 * whether by a verb of this JVM or of another one, the objects of its earlier states are stale:
 * their verbs throw {@link dev.gpuprocess.error.StaleStateException}.
 *
 * <p>One verb at a time works on a member, and a verb needs all members. While another verb works
 * on one, a verb that would take the process further from running is refused with {@link
 * dev.gpuprocess.error.OperationInProgressException} before anything is touched; a verb that brings
 * it back first waits for up to {@link Timeouts#call()} for all of them. So does closing; and if
 * another verb of this JVM is still at work on a single process then, the process is brought back
 * when that verb ends. A {@link dev.gpuprocess.report.StepListener} is notified of the steps of
 * several members at the same time, from several threads.
 *
 * <p>Every verb first checks that the pids still belong to the same processes, and that none of
 * them is stopped. Besides the exceptions it names, it may throw {@link
 * dev.gpuprocess.error.NoSuchProcessException}, {@link dev.gpuprocess.error.FixAndRetryException},
 * {@link dev.gpuprocess.error.OperationTimedOutException} and {@link
 * dev.gpuprocess.error.ProcessUnfitException}.
 */
public sealed interface GpuProcess
    permits RunningProcess, LockedProcess, CheckpointedProcess, FailedProcess, PoisonedProcess {

  /**
   * Takes a running process, with the drivers of this machine.
   *
   * @param pid of the root, which need not use CUDA itself
   * @return the process
   * @throws dev.gpuprocess.error.NoSuchProcessException when the process does not exist
   * @throws dev.gpuprocess.error.NotCudaProcessException when neither it nor a descendant uses
   *     CUDA, and when it is this JVM itself
   * @throws dev.gpuprocess.error.FixAndRetryException with reason WRONG_STATE when a member is
   *     locked or checkpointed and no verb is under way; use {@link #inspect}
   * @throws dev.gpuprocess.error.OperationInProgressException as {@link #inspect}, and when a verb
   *     is under way that has taken it from running, in whatever JVM
   * @throws dev.gpuprocess.error.MachineUnfitException with reason NO_CUDA_DRIVER when there is no
   *     libcuda; with reason DRIVER_TOO_OLD when the driver is older than 570
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
   * verb is under way and whose it is. It waits although the lock names that verb at once, because
   * most verbs end within that time; {@link GpuCheckpoints#processes()} does not wait for verbs.
   *
   * <p>A process whose members are in different states, because its controller died half way, is a
   * {@link CheckpointedProcess} when one of them is checkpointed, otherwise a {@link LockedProcess}
   * when one is locked; {@link CheckpointedProcess#resume()} and {@link LockedProcess#unlock()}
   * mend it. With a member that the driver refuses to restore, because an earlier restore ran out
   * of GPU memory, it is a {@link PoisonedProcess}: the journal in the {@linkplain
   * GpuCheckpoints#stateDirectory() state directory} has that. With a member that the driver has
   * given up it is a {@link FailedProcess}.
   *
   * @param pid of the root, which may have exited when members of its tree are suspended
   * @return an object of the type of its state
   * @throws dev.gpuprocess.error.NoSuchProcessException when the process does not exist, and the
   *     journal has no member of its tree
   * @throws dev.gpuprocess.error.NotCudaProcessException when neither it nor a descendant uses CUDA
   * @throws dev.gpuprocess.error.FixAndRetryException with reason PROCESS_STOPPED when a process of
   *     the tree is stopped that may use CUDA: the driver would not answer
   * @throws dev.gpuprocess.error.OperationInProgressException when a verb, of this JVM or another,
   *     was under way for longer than {@link Timeouts#call()}: ask again when it is done
   * @throws dev.gpuprocess.error.OperationTimedOutException when the driver did not answer within
   *     {@link Timeouts#call()} and no verb is known to be under way
   * @throws dev.gpuprocess.error.FixAndRetryException with reason WRONG_STATE when the driver
   *     reports a checkpoint or restore under way, which drivers up to 580 never do
   */
  static GpuProcess inspect(long pid) {
    return GpuCheckpoints.standard().inspect(pid);
  }

  /**
   * Brings a process back to running, from whatever state it is in, with the drivers of this
   * machine.
   *
   * @param pid of the root
   * @return the running process
   * @throws dev.gpuprocess.error.FixAndRetryException with reason WRONG_STATE when the driver
   *     cannot restore it any more
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link GpuCheckpoints#resume(long,
   *     dev.gpuprocess.options.ResumeOptions)}
   * @see GpuCheckpoints#resume(long)
   */
  static RunningProcess resume(long pid) {
    return GpuCheckpoints.standard().resume(pid);
  }

  /**
   * Takes a process off its GPU, from whatever state it is in, with the drivers of this machine.
   *
   * @param pid of the root
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.FixAndRetryException with reason WRONG_STATE when the driver has
   *     given the process up
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link GpuCheckpoints#suspend(long,
   *     dev.gpuprocess.options.SuspendOptions)}
   * @see GpuCheckpoints#suspend(long)
   */
  static CheckpointedProcess suspend(long pid) {
    return GpuCheckpoints.standard().suspend(pid);
  }

  /**
   * Starts a process as a child of this JVM, prepared for being dumped and restored, with the
   * drivers of this machine.
   *
   * @param options what to start, and how
   * @return the process, which runs
   * @throws dev.gpuprocess.error.FixAndRetryException with a LAUNCH reason when it cannot be
   *     started; nothing of it is left
   * @throws dev.gpuprocess.error.OperationTimedOutException when it has not begun within {@link
   *     Timeouts#call()}; nothing of it is left
   * @see GpuCheckpoints#launch(LaunchOptions)
   */
  static LaunchedProcess launch(LaunchOptions options) {
    return GpuCheckpoints.standard().launch(options);
  }

  /**
   * Starts a process that may ask for snapshots of itself, with the drivers of this machine.
   *
   * @param options what to start, and how
   * @param plan where the snapshots go, and which listener is notified
   * @return the process, which runs
   * @throws dev.gpuprocess.error.FixAndRetryException with a LAUNCH reason when it cannot be
   *     started; nothing of it is left
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link
   *     GpuCheckpoints#launch(LaunchOptions, SnapshotPlan)}
   * @see GpuCheckpoints#launch(LaunchOptions, SnapshotPlan)
   */
  static LaunchedProcess launch(LaunchOptions options, SnapshotPlan plan) {
    return GpuCheckpoints.standard().launch(options, plan);
  }

  /**
   * Which process this is: the root of its tree.
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
   * Waits until the root of the process has ended, by whatever cause; a dump ends it, too. An
   * interrupt does not end this; the thread stays interrupted.
   *
   * @param limit how long to wait at most; zero only looks
   * @return false when the time is up
   * @throws IllegalArgumentException when the limit is negative
   */
  boolean awaitExit(Duration limit);

  /**
   * Returns the CUDA processes that are known as members now and have not ended.
   *
   * @return the root first if it is one, parents before children
   */
  List<ProcessMember> members();

  /**
   * Returns how much GPU memory the members hold on each GPU, or held when they were checkpointed.
   *
   * @return the sums over {@link #members()}, in bytes; a member of which that is not known counts
   *     as zero
   */
  default Map<GpuUuid, Long> gpuBytes() {
    return members().stream()
        .flatMap(member -> member.gpuBytes().entrySet().stream())
        .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue, Long::sum));
  }

  /**
   * The state that this object stands for. The process itself may have moved on.
   *
   * @return the state as the driver names it
   */
  ProcessState state();

  /**
   * The label that the journal has of the process.
   *
   * @return the one that a controller set in {@link
   *     dev.gpuprocess.options.SuspendOptions.Builder#label}, or that of the image that it was
   *     restored from; empty for none
   */
  Optional<String> label();

  /**
   * The steps that led here since the process was last taken from where it ran, oldest first.
   *
   * @return the steps with their durations and bytes
   */
  List<Step> steps();
}
