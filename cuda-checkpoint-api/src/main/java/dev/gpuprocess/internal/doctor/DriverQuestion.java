package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeoutException;

/** What the driver says of a process; if it says nothing, that is a finding. */
final class DriverQuestion {

  private final Checkup checkup;
  private final EngineContext context;

  DriverQuestion(Checkup checkup, EngineContext context) {
    this.checkup = checkup;
    this.context = context;
  }

  /**
   * Asks for its state.
   *
   * @param who the subject of a finding
   * @param asked a process that is not stopped
   * @return empty when there is no answer
   */
  Optional<CudaAnswer<ProcessState>> state(String who, ProcessIdentity asked) {
    Duration deadline = context.timeouts().call();
    StateReading reading = StateReading.ask(context.cuda(), asked.pid());
    return checkup.await(
        who,
        deadline,
        () -> {
          try {
            return Optional.of(reading.await(deadline));
          } catch (TimeoutException e) {
            reading.leave();
            Optional<String> busy = ProcessLock.describe(ProcessKey.of(asked), context.state());
            busy.ifPresent(verb -> checkup.warning(who, verb, "wait for it"));
            if (busy.isEmpty()) {
              throw e;
            }
            return Optional.empty();
          }
        });
  }
}
