package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.progress.Step;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * What every state object holds: the job or process, its generation (older objects are stale), and
 * the steps taken so far.
 */
public record StateHandle(TrackedJob job, int generation, List<Step> steps) {

  /** The handle for the next state object of a job; older ones become stale. */
  public static StateHandle next(TrackedJob job, List<Step> steps) {
    return new StateHandle(job, job.advance(), steps);
  }

  /** The handle for the first state object of a process. */
  public static StateHandle next(TrackedProcess target, List<Step> steps) {
    return next(TrackedJob.of(target), steps);
  }

  /** The process of a job that is no tree. */
  public TrackedProcess target() {
    return job.only();
  }

  /** Locks running processes; see {@link Suspension#lock}. */
  public <T> T lock(Duration timeout, Function<StateHandle, T> next) {
    try (Stop stop = Suspension.stop(job, "lock", Optional.empty(), Durations.LONGEST)) {
      return move(
          "lock",
          ProcessState.RUNNING,
          ProcessState.LOCKED,
          operation -> Suspension.lock(operation, timeout, stop),
          next);
    }
  }

  /** Takes running processes off their GPUs; see {@link Suspension#suspend}. */
  public <T> T suspend(SuspendOptions options, Function<StateHandle, T> next) {
    Duration timeout = options.lockTimeout().orElse(job.context.timeouts().lock());
    try (Stop stop = Suspension.stop(job, "suspend", options.cancellation(), options.deadline())) {
      return move(
          "suspend",
          ProcessState.RUNNING,
          ProcessState.CHECKPOINTED,
          operation -> Suspension.suspend(operation, timeout, stop),
          next);
    }
  }

  /**
   * Runs a verb that leads away from running. When it fails, or a listener throws an Error, the
   * members are brought back to where they were.
   *
   * @param work may take in more members
   * @param next makes the object of the state that was reached
   */
  public <T> T move(
      String name,
      ProcessState from,
      ProcessState to,
      Consumer<JobOperation> work,
      Function<StateHandle, T> next) {
    job.members().forEach(each -> BoundedCall.requireCapacity(each.identity, name));
    return job.exclusively(
        name,
        ProcessLock.Kind.MOVE,
        generation,
        operation -> {
          StepRecorder measured = from == ProcessState.RUNNING ? measuredAnew() : measured();
          operation.measuredBy(measured);
          operation.require(from);
          ResumeOnExit.leaving(job, name);
          try {
            note(operation, name, ProcessLock.Kind.MOVE);
            work.accept(operation);
            measured.rethrow();
          } catch (RuntimeException | Error e) {
            new Undo(operation.members()).backTo(from, e);
            JobFailures.tell(operation, e);
            throw e;
          }
          return reached(measured, operation, to, next);
        });
  }

  /**
   * Runs a verb that leads back to running, from the expected state or from where an earlier verb
   * of this handle failed. What it has brought back stays so when it fails. A listener cannot stop
   * it.
   *
   * @param leftovers the other states to begin at
   */
  public <T> T bringBack(
      String name,
      ProcessState from,
      ProcessState to,
      Set<ProcessState> leftovers,
      Consumer<JobOperation> work,
      Function<StateHandle, T> next) {
    return job.exclusively(
        name,
        ProcessLock.Kind.BRING_BACK,
        generation,
        operation -> {
          StepRecorder measured = measured();
          operation.measuredBy(measured);
          operation.requireOrLeftover(from, leftovers);
          note(operation, name, ProcessLock.Kind.BRING_BACK);
          try {
            work.accept(operation);
            measured.rethrow();
          } catch (RuntimeException | Error e) {
            operation.leaveWhereTheyAre();
            JobFailures.tell(operation, e);
            throw e;
          }
          return reached(measured, operation, to, next);
        });
  }

  private static void note(JobOperation operation, String name, ProcessLock.Kind kind) {
    operation.each().forEach(each -> each.target().note(name, kind));
  }

  /** Adds to the steps that led to this state. */
  public StepRecorder measured() {
    return measured(steps);
  }

  /** For a verb that takes the job from where it runs: what led there is another journey. */
  public StepRecorder measuredAnew() {
    return measured(List.of());
  }

  private StepRecorder measured(List<Step> before) {
    return new StepRecorder(job.context.listener(), job.root.pid(), before);
  }

  private <T> T reached(
      StepRecorder measured,
      JobOperation operation,
      ProcessState state,
      Function<StateHandle, T> next) {
    T reached = next.apply(next(job, measured.taken()));
    operation.each().forEach(each -> each.target().leaveAt(state));
    return reached;
  }

  /**
   * Kills the process if it is still in this state. Does nothing when it has ended.
   *
   * @throws dev.gpuprocess.error.StaleStateException when it is in another
   */
  public void end(ProcessState expected) {
    try {
      int unused =
          job.exclusively(
              "end",
              ProcessLock.Kind.MOVE,
              generation,
              operation -> {
                operation.only().require(expected);
                target().end();
                return job.advance();
              });
    } catch (NoSuchProcessException e) {
      target().forget();
    }
  }

  /**
   * Brings the members back unless the state object was handed on. Does nothing when they have
   * ended.
   */
  public void close(Runnable undo) {
    if (!job.isCurrent(generation)) {
      return;
    }
    try {
      undo.run();
    } catch (NoSuchProcessException e) {
      int unused = job.advance();
    } catch (OperationInProgressException e) {
      // Nobody of a job is brought back alone by whoever works on one of them.
      if (job.isTree() || ProcessLock.wantBack(target().key)) {
        throw e;
      }
      undo.run();
    }
  }
}
