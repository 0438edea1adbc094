package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
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
public record SimpleRequest(CriuCommand command, String operation, String subject) {

  private static final Duration LIMIT = Duration.ofMinutes(1);

  /** The answer, whatever it says. */
  public CriuResult ask(criu_req request) {
    try {
      return CriuCall.plain(command, Deadline.after(LIMIT)).make(request);
    } catch (NativeCallException e) {
      throw new CriuUnavailableException(
          "CRIU cannot be started: " + e.getMessage(), Failure.of(operation, 0), e);
    }
  }

  /** The answer, if it is a good one. */
  criu_resp require(criu_req request) {
    CriuResult outcome = ask(request);
    criu_resp reply = outcome.reply();
    if (reply == null || !reply.getSuccess()) {
      throw failure(outcome);
    }
    return reply;
  }

  public CriuFailureBuilder diagnosis(CriuResult outcome) {
    return new CriuFailureBuilder(operation, subject, 0, outcome, null);
  }

  public GpuCheckpointException failure(CriuResult outcome) {
    return diagnosis(outcome).exception(untouched(), LIMIT);
  }

  public static TreeOutcome untouched() {
    return new TreeOutcome(null, "nothing was touched");
  }
}
