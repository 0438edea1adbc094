package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.gate.LockGate;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.populate.PopulateAhead;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.options.Cancellation;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * The way off the GPU: lock all members, then checkpoint all. The caller undoes what fails half
 * way.
 */
public final class Suspension {

  private Suspension() {}

  /**
   * Locks running processes, and those that a tree gets meanwhile.
   *
   * @param stop ends the wait for their GPU work early; what it ends is undone when the driver's
   *     calls return
   */
  public static void lock(JobOperation operation, Duration timeout, Stop stop) {
    Duration time = stop.remaining().compareTo(timeout) < 0 ? stop.remaining() : timeout;
    if (operation.job().isTree()) {
      new TreeLock(operation, stop).run(time);
    } else {
      lock(operation.members(), time, stop);
    }
  }

  static void lock(List<Member> members, Duration timeout, Stop stop) {
    Member.all(
        members,
        each -> each.steps().run("lock", 0, () -> each.operation().calls().lock(timeout, stop)),
        stop);
  }

  /** Checkpoints locked processes, unless they could not be brought back. */
  public static void checkpoint(JobOperation operation) {
    PeerMemoryCheck.require(operation.job(), "checkpoint");
    Member.all(operation.members(), Suspension::checkpoint);
  }

  /** What the process holds is journalled first: it cannot be read once it is checkpointed. */
  private static void checkpoint(Member member) {
    TrackedProcess target = member.target();
    Holdings held = Holdings.of(target.pid(), target.context.inventory().read());
    target.nowHolds(held);
    target.nowSavedIn(List.of());
    target.note("checkpoint", ProcessLock.Kind.MOVE);
    Runnable checkpoint = member.operation().calls()::checkpoint;
    member
        .steps()
        .runNoted(
            "checkpoint",
            held.bytes(),
            () -> {
              String gate = holdPolls(member.operation());
              String help = helped(target, held.bytes(), checkpoint);
              return gate.isEmpty() || help.isEmpty() ? gate + help : gate + "; " + help;
            });
  }

  /**
   * Keeps threads of the process out of calls that a checkpoint kills.
   *
   * @return for the step's note
   */
  private static String holdPolls(DriverOperation operation) {
    TrackedProcess target = operation.target();
    LockGate.Result gate = LockGate.set(target.identity);
    if (!gate.danger().isEmpty()) {
      throw new LockTimeoutException(
          "process %s was not checkpointed, as that could kill it now: %s; try again"
              .formatted(target.pid(), gate.danger()),
          operation.failure(null, ProcessState.LOCKED));
    }
    return gate.note();
  }

  /** The call has its own deadline; what helps it changes nothing of how it ends. */
  private static String helped(TrackedProcess target, long bytes, Runnable checkpoint) {
    // What is not known may be much.
    if (target.context.populateAhead() && (bytes == 0 || bytes >= PopulateAhead.LEAST_BYTES)) {
      return PopulateAhead.during(target.identity, checkpoint, target::nowSavedIn);
    }
    checkpoint.run();
    return "";
  }

  /**
   * Both, of running processes.
   *
   * @param stop ends it early; the driver's checkpoint is never cut short
   */
  public static void suspend(JobOperation operation, Duration lockTimeout, Stop stop) {
    // Ranks that wait for each other need not be stopped to be told this.
    PeerMemoryCheck.require(operation.job(), "suspend");
    lock(operation, lockTimeout, stop);
    // Better thrown now than after all the memory has moved to the host.
    operation.rethrow();
    requireNotAsked(stop, operation, "");
    checkpoint(operation);
    requireNotAsked(
        stop,
        operation,
        ", but not before the driver had finished the checkpoint, which is undone");
  }

  private static void requireNotAsked(Stop stop, JobOperation operation, String moment) {
    if (stop.reason().isPresent()) {
      throw stop.exception(
          operation.name(), operation.job().name(), moment, operation.failure(null, null));
    }
  }

  /**
   * Notes that a dump is about to suspend a running job.
   *
   * @throws dev.gpuprocess.error.OperationCancelledException when this JVM is exiting and resumes
   *     what it has suspended
   */
  public static void leaving(JobOperation operation) {
    ResumeOnExit.leaving(operation.job(), operation.name());
  }

  /**
   * What ends a suspend early: the cancellation of its caller, an interrupt of this thread, the
   * exit of this JVM where that resumes, and the time.
   *
   * @param verb for exceptions
   * @throws dev.gpuprocess.error.OperationCancelledException when it is to end before it has begun
   */
  public static Stop stop(
      TrackedJob job, String verb, Optional<Cancellation> cancellation, Duration limit) {
    Stop stop = new Stop(limit);
    cancellation.ifPresent(by -> stop.when(by, Stop.Reason.CANCELLED));
    ResumeOnExit.endEarly(job, stop);
    if (stop.reason().isPresent()) {
      GpuCheckpointException why =
          stop.exception(
              verb,
              job.name(),
              " before it began: nothing was touched",
              Failure.of(verb, job.root.pid()));
      stop.close();
      throw why;
    }
    return stop;
  }
}
