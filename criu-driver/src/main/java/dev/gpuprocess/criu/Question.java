package dev.gpuprocess.criu;

import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import java.time.Duration;

/**
 * One request that concerns no process: nothing to watch, nothing to undo.
 *
 * @param command what starts CRIU
 * @param operation the verb
 * @param subject what is asked, for messages
 */
record Question(CriuCommand command, String operation, String subject) {

  private static final Duration LIMIT = Duration.ofMinutes(1);

  /** The answer, whatever it says. */
  Outcome ask(criu_req request) {
    try {
      return CriuCall.plain(command, Deadline.after(LIMIT)).make(request);
    } catch (NativeCallException e) {
      throw new CriuUnavailableException(
          "CRIU cannot be started: " + e.getMessage(), Failure.of(operation, 0), e);
    }
  }

  /** The answer, if it is a good one. */
  criu_resp require(criu_req request) {
    Outcome outcome = ask(request);
    criu_resp reply = outcome.reply();
    if (reply == null || !reply.getSuccess()) {
      throw failure(outcome);
    }
    return reply;
  }

  Diagnosis diagnosis(Outcome outcome) {
    return new Diagnosis(operation, subject, 0, outcome, null);
  }

  GpuCheckpointException failure(Outcome outcome) {
    return diagnosis(outcome).exception(untouched(), LIMIT);
  }

  static Ending untouched() {
    return new Ending(null, "nothing was touched");
  }
}
