package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.time.Deadline;
import java.io.IOException;
import java.time.Duration;

/** A CHECK request. */
public final class CheckOperation {

  private static final Duration LIMIT = Duration.ofMinutes(1);

  private final RpcLink criu;

  public CheckOperation(RpcLink criu) {
    this.criu = criu;
  }

  public void run() {
    CriuResult result;
    try {
      result = criu.check(CallContext.plain(Deadline.after(LIMIT)));
    } catch (IOException e) {
      throw new MachineUnfitException(
          MachineUnfitException.Reason.NO_CRIU,
          "CRIU cannot be started: " + e.getMessage(),
          Failure.of("check", 0),
          e);
    }
    if (!result.success()) {
      throw new CriuFailureBuilder("check", "CRIU's check of this kernel", 0, result, null)
          .exception(new TreeOutcome(null, "nothing was touched"), LIMIT);
    }
  }
}
