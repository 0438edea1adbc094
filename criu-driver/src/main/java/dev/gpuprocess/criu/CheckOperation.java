package dev.gpuprocess.criu;

import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import java.time.Duration;

/** One CHECK. */
final class CheckOperation {

  private static final Duration LIMIT = Duration.ofMinutes(1);

  private final CriuBinary criu;

  CheckOperation(CriuBinary criu) {
    this.criu = criu;
  }

  void run() {
    criu_req request = criu_req.newBuilder().setType(criu_req_type.CHECK).build();
    Outcome outcome;
    try {
      outcome = CriuCall.plain(criu.program(), Deadline.after(LIMIT)).make(request);
    } catch (NativeCallException e) {
      throw new CriuUnavailableException(
          "CRIU cannot be started: " + e.getMessage(), Failure.of("check", 0), e);
    }
    if (!outcome.success()) {
      throw new Diagnosis("check", "CRIU's check of this kernel", 0, outcome, null)
          .exception(new Ending(null, "nothing was touched"), LIMIT);
    }
  }
}
