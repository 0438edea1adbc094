package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.memory.LockGate;
import dev.gpuprocess.internal.reservation.GpuUsage;
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
  public static void lock(TreeOperation operation, Duration timeout, Stop stop) {
    Duration time = stop.remaining().compareTo(timeout) < 0 ? stop.remaining() : timeout;
    new TreeLock(operation, stop).run(time);
  }

  static void lock(List<Member> members, Duration timeout, Stop stop) {
    Member.all(
        members,
        each -> each.steps().run("lock", 0, () -> each.operation().calls().lock(timeout, stop)),
        stop);
  }

  /** Checkpoints locked processes, unless they could not be brought back. */
  public static void checkpoint(TreeOperation operation) {
    try (SaveMemory memory = SaveMemory.take(operation)) {
      checkpoint(operation, memory);
    }
  }

  private static void checkpoint(TreeOperation operation, SaveMemory memory) {
    PeerMemoryCheck.require(operation.tree(), "checkpoint");
    List<Member> members = operation.members();
    Member.all(members, Suspension::note);
    Member.all(members, each -> checkpoint(each, memory));
  }

  /** What the process holds is journalled first: it cannot be read once it is checkpointed. */
  private static void note(Member member) {
    TrackedProcess target = member.target();
    target.nowHolds(GpuUsage.of(target.pid(), target.context.inventory().read()));
    target.nowSavedIn(List.of());
    target.note("checkpoint", ProcessLock.Kind.MOVE);
  }

  private static void checkpoint(Member member, SaveMemory memory) {
    Runnable checkpoint = member.operation().calls()::checkpoint;
    member
        .steps()
        .runNoted(
            "checkpoint",
            member.target().held().bytes(),
            () -> {
              String gate = holdPolls(member.operation());
              String copies = memory.during(member, checkpoint);
              return gate.isEmpty() || copies.isEmpty() ? gate + copies : gate + "; " + copies;
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

  /**
   * Both, of running processes.
   *
   * @param stop ends it early; the driver's checkpoint is never cut short
   * @return when the first of them was about to be locked, by the clock of {@link System#nanoTime}
   */
  public static long suspend(TreeOperation operation, Duration lockTimeout, Stop stop) {
    // Ranks that wait for each other need not be stopped to be told this.
    PeerMemoryCheck.require(operation.tree(), "suspend");
    // The processes run while their memory is made.
    long locked;
    try (SaveMemory memory = SaveMemory.take(operation)) {
      requireNotAsked(stop, operation, " before it was locked");
      locked = System.nanoTime();
      lock(operation, lockTimeout, stop);
      // Better thrown now than after all the memory has moved to the host.
      operation.rethrow();
      requireNotAsked(stop, operation, "");
      checkpoint(operation, memory);
    }
    requireNotAsked(
        stop,
        operation,
        ", but not before the driver had finished the checkpoint, which is undone");
    return locked;
  }

  private static void requireNotAsked(Stop stop, TreeOperation operation, String moment) {
    if (stop.reason().isPresent()) {
      throw stop.exception(
          operation.name(), operation.tree().name(), moment, operation.failure(null, null));
    }
  }

  /**
   * Notes that a dump is about to suspend a running job.
   *
   * @throws dev.gpuprocess.error.OperationCancelledException when this JVM is exiting and resumes
   *     what it has suspended
   */
  public static void leaving(TreeOperation operation) {
    ResumeOnExit.leaving(operation.tree(), operation.name());
  }

  /**
   * What ends a suspend early: the cancellation of its caller, an interrupt of this thread, the
   * exit of this JVM where that resumes, and the time.
   *
   * @param verb for exceptions
   * @throws dev.gpuprocess.error.OperationCancelledException when it is to end before it has begun
   */
  public static Stop stop(
      TrackedTree job, String verb, Optional<Cancellation> cancellation, Duration limit) {
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
