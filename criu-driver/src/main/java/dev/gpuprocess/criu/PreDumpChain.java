package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.dump.DumpOperation;
import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuProcess;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.dumped.DumpReport;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.util.List;

/**
 * Rounds of pre-dumps and the dump after them, by one CRIU. The tree runs between the rounds and is
 * not held: a chain that is closed early, or whose JVM dies, leaves it as it is. A failure ends the
 * chain; the rounds that succeeded can be the parents of another one. May be shared between
 * threads; calls run one at a time.
 */
public final class PreDumpChain implements AutoCloseable {

  private static final String OPERATION = "pre-dump";

  private final RpcLink link;
  private final CriuProcess criu;
  private boolean ended;
  private boolean closed;

  private PreDumpChain(RpcLink link, CriuProcess criu) {
    this.link = link;
    this.criu = criu;
  }

  static PreDumpChain start(RpcLink link) {
    try {
      return new PreDumpChain(link, CriuProcess.start(link.command(), List.of()));
    } catch (NativeCallException e) {
      throw new CriuUnavailableException(
          "CRIU cannot be started: " + e.getMessage(), Failure.of(OPERATION, 0), e);
    }
  }

  /**
   * Makes one round.
   *
   * @param request as for {@link RpcCriuDriver#preDump}, with the same exceptions; from the second
   *     round on with the previous round as its parent
   * @return what CRIU measured
   * @throws IllegalStateException if the chain has ended
   */
  public synchronized DumpReport preDump(DumpRequest request) {
    DumpOperation.Call call =
        (asked, shellJob, context) ->
            link.preDump(
                criu_req_type.PRE_DUMP,
                asked,
                shellJob,
                message -> exchange(message, context, false));
    return DumpOperation.preDump(link, call, request).run();
  }

  /**
   * Makes the dump, which ends the chain.
   *
   * @param request as for {@link RpcCriuDriver#dump}, with the same exceptions, and with the last
   *     round as its parent
   * @param listener called at each stage; vetoes the dump by throwing
   * @return what CRIU measured
   * @throws IllegalStateException if the chain has ended
   */
  public synchronized DumpReport dump(DumpRequest request, DumpListener listener) {
    DumpOperation.Call call =
        (asked, shellJob, context) ->
            link.dump(asked, shellJob, message -> exchange(message, context, true));
    return DumpOperation.dump(link, call, request, listener).run();
  }

  private CriuResult exchange(criu_req message, CallContext context, boolean last)
      throws NativeCallException {
    if (ended) {
      throw new IllegalStateException("this chain has ended: start another");
    }
    CriuResult result = new CriuCall(link.command(), context, List.of()).over(criu, message, last);
    ended = last || !result.success();
    return result;
  }

  /** Ends CRIU, unless it has exited. */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    ended = true;
    try {
      criu.close();
    } catch (NativeCallException e) {
      throw new CriuUnavailableException(
          "CRIU could not be ended: " + e.getMessage(), Failure.of(OPERATION, criu.pid()), e);
    }
  }
}
