package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import java.util.List;

/**
 * A process tree with any number of CUDA processes in it, its members, in a known state: a launcher
 * and its ranks, a trainer and its data loaders. The members are moved together. States and verbs
 * are those of a {@link GpuProcess}, which is a job of one member:
 *
 * <pre>{@code
 * try (CheckpointedJob parked = GpuJob.of(rootPid).suspend()) {
 *   urgentJob.run();
 * }
 * }</pre>
 *
 * <p>A member is who has CUDA state by what the driver says, not by its name. The tree is looked at
 * again after the members are locked, since processes come and go; one that left the tree because
 * its parent ended stays a member while this object or its journal entry lives. A tree without
 * members is a job too: there is nothing to move, and it is only dumped.
 *
 * <p>All members are locked at the same time, so that ranks which wait for each other come to rest
 * together, and checkpointed side by side. GPU memory for the way back is reserved for all or for
 * none, and all are restored before any is unlocked. A verb that leads away from running and fails
 * for one member is undone for all. One that leads back and fails keeps what it has done: it can be
 * called again, and leaves out the members that are further. Whatever fails, {@link
 * dev.gpuprocess.error.GpuCheckpointException#job()} tells where each member was left; several
 * failures are one exception with the others suppressed in it.
 *
 * <p>State objects are immutable and may be shared between threads; they become stale as those of a
 * process do. One verb at a time works on a member, and a verb on a job needs all of them: while
 * another verb works on one, it is refused with {@link
 * dev.gpuprocess.error.OperationInProgressException} before anything is touched, or, if it leads
 * back to running, waits for up to {@link Timeouts#call()} for all of them first. Besides the
 * exceptions that a verb names it may throw those that are named at {@link GpuProcess}. A {@link
 * dev.gpuprocess.progress.StepListener} is told of the steps of several members at the same time,
 * from several threads.
 */
public sealed interface GpuJob permits RunningJob, LockedJob, CheckpointedJob {

  /**
   * Takes a running job, with the drivers of this machine.
   *
   * @param rootPid the root of the tree, which need not use CUDA itself
   * @return the job
   * @throws dev.gpuprocess.error.WrongStateException when a member is not running and no verb is
   *     under way; use {@link #inspect}
   * @throws dev.gpuprocess.error.OperationInProgressException as {@link #inspect}, and when a verb
   *     is under way that has taken a member from running, in whatever JVM
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #inspect}
   */
  static RunningJob of(long rootPid) {
    return GpuCheckpoints.standard().job(rootPid);
  }

  /**
   * Starts a job as a child of this JVM, prepared for being dumped and restored, with the drivers
   * of this machine.
   *
   * @param options what to start, and how
   * @return the job, which runs
   * @throws dev.gpuprocess.error.LaunchException when it cannot be started; nothing of it is left
   * @throws dev.gpuprocess.error.OperationTimedOutException when it has not begun within {@link
   *     Timeouts#call()}; nothing of it is left
   * @see GpuCheckpoints#launch
   */
  static LaunchedJob launch(LaunchOptions options) {
    return GpuCheckpoints.standard().launch(options);
  }

  /**
   * Starts a job that may ask for snapshots of itself, with the drivers of this machine.
   *
   * @param options what to start, and how
   * @param plan where the snapshots go, and who is told
   * @return the job, which runs
   * @throws dev.gpuprocess.error.LaunchException when it cannot be started; nothing of it is left
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link
   *     GpuCheckpoints#launch(LaunchOptions, RequestPlan)}
   * @see GpuCheckpoints#launch(LaunchOptions, RequestPlan)
   */
  static LaunchedJob launch(LaunchOptions options, RequestPlan plan) {
    return GpuCheckpoints.standard().launch(options, plan);
  }

  /**
   * Takes a job in whatever state it is in, with the drivers of this machine; for tools that did
   * not suspend it themselves. It only reads, and delays no verb. A job whose members are in
   * different states, because its controller died half way, is given as a {@link CheckpointedJob}
   * when one of them is checkpointed, else as a {@link LockedJob} when one is locked; {@link
   * CheckpointedJob#resume()} and {@link LockedJob#unlock()} mend it.
   *
   * @param rootPid the root of the tree, which may have ended when members of its are suspended
   * @return an object of the type of its state
   * @throws dev.gpuprocess.error.NoSuchProcessException when there is no such process, and no
   *     suspended member of its is known
   * @throws dev.gpuprocess.error.ProcessStoppedException when a process of the tree is stopped that
   *     may use CUDA: the driver would not answer
   * @throws dev.gpuprocess.error.OperationInProgressException when a verb on a member was under way
   *     for longer than {@link Timeouts#call()}
   * @throws dev.gpuprocess.error.OperationTimedOutException when the driver did not answer within
   *     {@link Timeouts#call()} about a process, and no verb is known to be under way
   * @throws dev.gpuprocess.error.WrongStateException when the driver says that it has broken a
   *     member (FAILED), or is in the middle of moving one
   * @throws PoisonedJobException when the driver refuses to restore a member because an earlier
   *     restore of it ran out of GPU memory; {@link GpuProcess#inspect} returns each such member as
   *     a {@link PoisonedProcess}
   * @throws dev.gpuprocess.error.NoCudaDriverException when there is no libcuda
   * @throws dev.gpuprocess.error.DriverTooOldException when the driver is older than 570
   */
  static GpuJob inspect(long rootPid) {
    return GpuCheckpoints.standard().inspectJob(rootPid);
  }

  /**
   * The root of the process tree.
   *
   * @return its pid and start time
   */
  ProcessIdentity root();

  /**
   * The CUDA processes that are known as members now and have not ended.
   *
   * @return the root first if it is one, parents before children; empty for a tree without CUDA
   */
  List<JobMember> members();

  /**
   * The state that this object stands for. The members themselves may have moved on, and where a
   * controller died half way they can be in several states.
   *
   * @return the state as the driver names it
   */
  ProcessState state();

  /**
   * The steps that led here since the job was last taken from where it ran, in the order in which
   * they ended.
   *
   * @return the steps, each with the pid of its member
   */
  List<Step> steps();
}
