package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.os.ExitStatus;
import dev.gpuprocess.criu.internal.process.Conversation.Reply;
import dev.gpuprocess.criu.proto.Rpc.criu_resp;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How a request to CRIU went.
 *
 * @param reply what it answered, null when it ended without a word or was ended
 * @param exit how it ended
 * @param givenUp why it was ended, null when it ended by itself
 * @param output what it printed besides its log
 * @param elapsed from start to end
 * @param criu the pid of CRIU, 0 when it is not known
 */
public record CriuResult(
    @Nullable criu_resp reply,
    ExitStatus exit,
    @Nullable GivenUpException givenUp,
    String output,
    Duration elapsed,
    int criu) {

  static CriuResult of(Reply reply, ExitStatus exit, CriuProcess criu, CallContext supervision) {
    return new CriuResult(
        reply.message(),
        exit,
        reply.givenUp(),
        criu.output(),
        supervision.deadline().elapsed(),
        criu.criu().map(ProcessIdentity::pid).orElse(0));
  }

  public boolean success() {
    return reply != null && reply.getSuccess();
  }

  /** Whether it died before it could answer, and not by our hand. */
  public boolean crashed() {
    return reply == null && givenUp == null && exit.isCrash();
  }

  public int errno() {
    return reply == null ? 0 : reply.getCrErrno();
  }
}
