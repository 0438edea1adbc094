package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.time.Deadline;
import java.time.Duration;

/**
 * A request that concerns no process, so there is nothing to watch and nothing to undo.
 *
 * @param command the command that starts CRIU
 * @param operation the operation, for the exception
 * @param subject what is requested, for messages
 */
public record SimpleRequest(CriuCommand command, String operation, String subject) {

  private static final Duration LIMIT = Duration.ofMinutes(1);

  /** Makes the request and returns how it went. */
  public CriuResult ask(criu_req request) {
    try {
      return CriuCall.plain(command, Deadline.after(LIMIT)).make(request);
    } catch (NativeCallException e) {
      throw new MachineUnfitException(
          MachineUnfitException.Reason.NO_CRIU,
          "CRIU cannot be started: " + e.getMessage(),
          Failure.of(operation, 0),
          e);
    }
  }

  /** Runs CRIU's check of this kernel. */
  public static void check(CriuCommand command) {
    criu_resp unused =
        new SimpleRequest(command, "check", "CRIU's check of this kernel")
            .require(criu_req.newBuilder().setType(criu_req_type.CHECK).build());
  }

  /** Makes the request and returns CRIU's reply, which reports success. */
  criu_resp require(criu_req request) {
    CriuResult result = ask(request);
    criu_resp reply = result.reply();
    if (reply == null || !reply.getSuccess()) {
      throw failure(result);
    }
    return reply;
  }

  public CriuFailureBuilder builder(CriuResult result) {
    return new CriuFailureBuilder(operation, subject, 0, result, null);
  }

  public GpuCheckpointException failure(CriuResult result) {
    return builder(result).exception(untouched(), LIMIT);
  }

  public static TreeOutcome untouched() {
    return new TreeOutcome(null, "nothing was touched");
  }
}
