package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.Failure;
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

  public static final TreeOutcome UNTOUCHED = new TreeOutcome(null, "nothing was touched");

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
    SimpleRequest check = new SimpleRequest(command, "check", "CRIU's check of this kernel");
    check.requireSuccess(check.ask(criu_req.newBuilder().setType(criu_req_type.CHECK).build()));
  }

  public CriuFailureBuilder builder(CriuResult result) {
    return new CriuFailureBuilder(operation, subject, 0, result, null);
  }

  /** Throws if the request has failed. */
  public void requireSuccess(CriuResult result) {
    if (!result.success()) {
      throw builder(result).exception(UNTOUCHED, LIMIT);
    }
  }
}
