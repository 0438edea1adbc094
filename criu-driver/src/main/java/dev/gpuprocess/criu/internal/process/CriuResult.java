package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.internal.linux.ExitStatus;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * The result of a request to CRIU.
 *
 * @param reply CRIU's reply, or null if CRIU exited without one or was killed
 * @param exit how CRIU exited
 * @param givenUp the reason for which CRIU was killed, or null if it was not
 * @param output the output of CRIU apart from its log
 * @param elapsed from start to end
 * @param criu CRIU's pid, or 0 if it is not known
 */
public record CriuResult(
    @Nullable criu_resp reply,
    ExitStatus exit,
    @Nullable GivenUpException givenUp,
    String output,
    Duration elapsed,
    int criu) {

  public boolean success() {
    return reply != null && reply.getSuccess();
  }

  /** Returns whether CRIU died before it replied and was not killed by this JVM. */
  public boolean crashed() {
    return reply == null && givenUp == null && exit.isCrash();
  }

  public int errno() {
    return reply == null ? 0 : reply.getCrErrno();
  }
}
