package dev.gpuprocess.criu;

import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import java.io.IOException;
import java.time.Duration;

/** One CHECK. */
final class CheckOperation {

  private static final Duration LIMIT = Duration.ofMinutes(1);

  private final RpcLink criu;

  CheckOperation(RpcLink criu) {
    this.criu = criu;
  }

  void run() {
    Outcome outcome;
    try {
      outcome = criu.check(Supervision.plain(Deadline.after(LIMIT)));
    } catch (IOException e) {
      throw new CriuUnavailableException(
          "CRIU cannot be started: " + e.getMessage(), Failure.of("check", 0), e);
    }
    if (!outcome.success()) {
      throw new Diagnosis("check", "CRIU's check of this kernel", 0, outcome, null)
          .exception(new Ending(null, "nothing was touched"), LIMIT);
    }
  }
}
