package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.memory.LockGate;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.Cancellation;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** Takes members off their GPUs: locks all, then checkpoints all. The caller rolls back. */
public final class Suspension {

  private Suspension() {}

  /**
   * Locks running members, and members that appear in the tree while it locks.
   *
   * @param stop ends the wait for their GPU work early; abandoned calls are undone when they return
   */
  public static void lock(TreeOperation operation, Duration timeout, Stop stop) {
    new TreeLock(operation, stop).run(Durations.min(stop.remaining(), timeout));
  }

  static void lock(List<ProcessOperation> members, Duration timeout, Stop stop) {
    Parallel.forEach(
        members,
        each -> each.steps().run("lock", 0, () -> each.lock(timeout, stop)),
        stop::awaitDone);
  }

  /** Checkpoints locked members, unless the driver could not restore them. */
  public static void checkpoint(TreeOperation operation) {
    try (SaveMemory memory = SaveMemory.take(operation)) {
      checkpoint(operation, memory);
    }
  }

  private static void checkpoint(TreeOperation operation, SaveMemory memory) {
    PeerMemoryCheck.require(operation.tree(), "checkpoint");
    List<ProcessOperation> members = operation.members();
    Parallel.forEach(members, each -> note(each, memory));
    Parallel.forEach(members, each -> checkpoint(each, memory));
  }

  /**
   * Journals the GPU memory that the process holds, which cannot be read after the checkpoint, and
   * the files that will hold it.
   */
  private static void note(ProcessOperation member, SaveMemory memory) {
    TrackedProcess process = member.process();
    process.recordGpuUsage(GpuUsage.of(process.pid(), process.context.inventory().read()));
    process.recordSaveFiles(memory.filesOf(process));
    process.note("checkpoint", ProcessLock.Kind.MOVE);
  }

  private static void checkpoint(ProcessOperation member, SaveMemory memory) {
    Runnable checkpoint = member::checkpoint;
    member
        .steps()
        .runNoted(
            "checkpoint",
            member.process().held().bytes(),
            () -> {
              String gate = setGate(member);
              String copies = memory.during(member, checkpoint);
              return gate.isEmpty() || copies.isEmpty() ? gate + copies : gate + "; " + copies;
            });
  }

  /**
   * Keeps threads of the process out of driver calls in which a checkpoint would kill them.
   *
   * @return a note for the step
   */
  private static String setGate(ProcessOperation member) {
    TrackedProcess process = member.process();
    LockGate.Result gate = LockGate.set(process.identity, process.context.allowPolls());
    if (!gate.danger().isEmpty()) {
      throw new LockTimeoutException(
          "process %s was not checkpointed, as that could kill it now: %s; try again"
              .formatted(process.pid(), gate.danger()),
          member.failure(null, ProcessState.LOCKED));
    }
    if (!gate.isSet()) { // perhaps a new member, or one that began to poll
      PollCheck.require(process, member.failure(null, ProcessState.LOCKED));
    }
    return gate.note();
  }

  /**
   * Locks and checkpoints running members.
   *
   * @param stop ends it early; a checkpoint by the driver always completes
   * @return the time before the first member was locked, by the clock of {@link System#nanoTime}
   */
  public static long suspend(TreeOperation operation, Duration lockTimeout, Stop stop) {
    // Before the lock: a refused process is not stopped.
    PeerMemoryCheck.require(operation.tree(), "suspend");
    PollCheck.require(operation);
    // The processes run while their memory is made.
    long locked;
    try (SaveMemory memory = SaveMemory.take(operation)) {
      requireNotAsked(stop, operation, " before it was locked");
      locked = System.nanoTime();
      lock(operation, lockTimeout, stop);
      // Now rather than after all the memory has moved to the host.
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
          operation.verb(), operation.tree().name(), moment, operation.failure(null, null));
    }
  }

  /**
   * Records that a dump is about to suspend a running process.
   *
   * @throws dev.gpuprocess.error.OperationCancelledException when this JVM is exiting and resumes
   *     its suspended processes
   */
  public static void leaving(TreeOperation operation) {
    ResumeOnExit.leaving(operation.tree(), operation.verb());
  }

  /**
   * Returns what ends a suspend early: the cancellation of its caller, an interrupt of this thread,
   * the time limit, and the exit of this JVM if that resumes processes.
   *
   * @param verb for exceptions
   * @throws dev.gpuprocess.error.OperationCancelledException when one of these has happened already
   */
  public static Stop stop(
      TrackedTree tree, String verb, Optional<Cancellation> cancellation, Duration limit) {
    Stop stop = new Stop(limit);
    cancellation.ifPresent(by -> stop.when(by, Stop.Reason.CANCELLED));
    ResumeOnExit.endEarly(tree, stop);
    if (stop.reason().isPresent()) {
      GpuCheckpointException why =
          stop.exception(
              verb,
              tree.name(),
              " before it began: nothing was touched",
              Failure.of(verb, tree.root.pid()));
      stop.close();
      throw why;
    }
    return stop;
  }
}
