package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.LockHolder;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/** Reads states of processes from the driver, within a deadline. A read leaves nothing to undo. */
final class StateQuery {

  private final EngineContext context;
  private final Supplier<Failure> failure;
  private final Duration deadline;

  /**
   * Creates the queries of one verb.
   *
   * @param failure returns the data for an exception of the verb
   */
  StateQuery(EngineContext context, Supplier<Failure> failure) {
    this.context = context;
    this.failure = failure;
    this.deadline = context.timeouts().call();
  }

  /** Reads the state of the process whose lock this verb holds. */
  CudaAnswer<ProcessState> askLocked(ProcessIdentity process) {
    try {
      return StateReading.readUntilAnswered(context.cuda(), process.pid(), deadline);
    } catch (TimeoutException e) {
      throw unanswered(process, Optional.empty(), e);
    }
  }

  /**
   * Reads the state of a process on which another verb may be at work.
   *
   * @throws OperationInProgressException when that verb does not end in time
   * @throws OperationTimedOutException when the driver does not answer, and no verb is known that
   *     could be the reason
   */
  CudaAnswer<ProcessState> ask(ProcessIdentity process) {
    awaitCriu(process);
    Duration half = Duration.ofNanos(Durations.nanos(deadline) / 2);
    StateReading reading = StateReading.ask(context.cuda(), process.pid());
    try {
      return reading.awaitFirst(half);
    } catch (TimeoutException e) {
      Optional<LockHolder> holder = holder(process);
      try {
        return reading.await(deadline.minus(half));
      } catch (TimeoutException again) {
        throw unanswered(process, holder.or(() -> holder(process)), again);
      }
    }
  }

  /**
   * Waits while CRIU dumps or restores a process for another verb.
   *
   * @throws OperationInProgressException when that takes longer than a call may
   */
  void awaitCriu(ProcessIdentity process) {
    try (Polling patience = new Polling(deadline)) {
      while (true) {
        Optional<LockHolder> other =
            ProcessLock.holderAtCriu(ProcessKey.of(process), context.state());
        if (other.isEmpty()) {
          return;
        }
        if (!patience.pause()) {
          throw other
              .get()
              .inProgress(
                  process.pid(),
                  "CRIU works on it, and its state cannot be read until that has ended",
                  failure.get());
        }
      }
    }
  }

  private Optional<LockHolder> holder(ProcessIdentity process) {
    return ProcessLock.holder(ProcessKey.of(process), context.state());
  }

  private RuntimeException unanswered(
      ProcessIdentity process, Optional<LockHolder> holder, TimeoutException cause) {
    return holder
        .<RuntimeException>map(
            known ->
                known.inProgress(
                    process.pid(),
                    "the driver does not return its state until that has ended",
                    failure.get()))
        .orElseGet(
            () ->
                new OperationTimedOutException(
                    "the driver did not report the state of process %s within %s: a program that does not use %s may be moving its GPU memory, the process may be stopped, or its GPU hung"
                        .formatted(process.pid(), Printable.of(deadline), context.state().path()),
                    failure.get(),
                    cause));
  }
}
