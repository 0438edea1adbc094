package dev.gpuprocess.examples.agent;

import io.grpc.netty.shaded.io.netty.bootstrap.ServerBootstrap;
import io.grpc.netty.shaded.io.netty.buffer.Unpooled;
import io.grpc.netty.shaded.io.netty.channel.Channel;
import io.grpc.netty.shaded.io.netty.channel.ChannelFuture;
import io.grpc.netty.shaded.io.netty.channel.ChannelFutureListener;
import io.grpc.netty.shaded.io.netty.channel.ChannelHandlerContext;
import io.grpc.netty.shaded.io.netty.channel.ChannelInitializer;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.MultiThreadIoEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.SimpleChannelInboundHandler;
import io.grpc.netty.shaded.io.netty.channel.nio.NioIoHandler;
import io.grpc.netty.shaded.io.netty.channel.socket.nio.NioServerSocketChannel;
import io.grpc.netty.shaded.io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.grpc.netty.shaded.io.netty.handler.codec.http.FullHttpResponse;
import io.grpc.netty.shaded.io.netty.handler.codec.http.HttpHeaderNames;
import io.grpc.netty.shaded.io.netty.handler.codec.http.HttpHeaderValues;
import io.grpc.netty.shaded.io.netty.handler.codec.http.HttpMethod;
import io.grpc.netty.shaded.io.netty.handler.codec.http.HttpObject;
import io.grpc.netty.shaded.io.netty.handler.codec.http.HttpRequest;
import io.grpc.netty.shaded.io.netty.handler.codec.http.HttpResponseStatus;
import io.grpc.netty.shaded.io.netty.handler.codec.http.HttpServerCodec;
import io.grpc.netty.shaded.io.netty.handler.codec.http.HttpVersion;
import io.grpc.netty.shaded.io.netty.handler.codec.http.QueryStringDecoder;
import io.grpc.netty.shaded.io.netty.util.concurrent.Future;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * {@code /metrics} for Prometheus, {@code /healthz} and {@code /readyz}. Needs no token.
 *
 * <p>One thread serves all connections, and no request blocks it: the kubelet restarts the agent if
 * {@code /healthz} does not answer. The server of the JDK has a thread for each request whose head
 * has not arrived, so a few silent clients stop it.
 */
final class HttpEndpoint implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(HttpEndpoint.class);

  /**
   * A connection has one request and is closed after this time. The kubelet waits for 5 seconds,
   * and Prometheus for 10 by default.
   */
  private static final int CONNECTION_SECONDS = 10;

  /** When another connection arrives, the oldest is closed. */
  private static final int CONNECTIONS = 256;

  /** A scrape reads the GPUs, which takes as long as the driver takes. */
  private static final int SCRAPES = 2;

  private static final int SCRAPES_QUEUED = 16;

  private final AgentMetrics metrics;
  private final BooleanSupplier ready;
  private final ExecutorService scrapes =
      Threads.bounded("gpuprocess metrics", SCRAPES, SCRAPES_QUEUED);
  private final EventLoopGroup loop =
      new MultiThreadIoEventLoopGroup(
          1, Threads.daemons("gpuprocess http"), NioIoHandler.newFactory());
  private final Channel server;

  /** The open connections, the oldest first. Only the thread of the loop uses it. */
  private final Deque<Channel> connections = new ArrayDeque<>();

  /**
   * Listens.
   *
   * @param ready must not block
   * @throws IOException when the address cannot be used
   */
  HttpEndpoint(InetSocketAddress address, AgentMetrics metrics, BooleanSupplier ready)
      throws IOException {
    this.metrics = metrics;
    this.ready = ready;
    ChannelFuture bound =
        new ServerBootstrap()
            .group(loop)
            .channel(NioServerSocketChannel.class)
            .childHandler(
                new ChannelInitializer<Channel>() {
                  @Override
                  protected void initChannel(Channel connection) {
                    opened(connection);
                    connection.pipeline().addLast(new HttpServerCodec(), new Requests());
                  }
                })
            .bind(address)
            .awaitUninterruptibly();
    server = bound.channel();
    if (!bound.isSuccess()) {
      close();
      throw new IOException(
          "cannot listen on %s for HTTP: %s".formatted(address, bound.cause().getMessage()),
          bound.cause());
    }
  }

  private void opened(Channel connection) {
    if (connections.size() >= CONNECTIONS) {
      shut(connections.remove());
    }
    connections.add(connection);
    Future<?> deadline =
        connection
            .eventLoop()
            .schedule(() -> shut(connection), CONNECTION_SECONDS, TimeUnit.SECONDS);
    ChannelFuture unused =
        connection
            .closeFuture()
            .addListener(
                closed -> {
                  deadline.cancel(false);
                  connections.remove(connection);
                });
  }

  private static void shut(Channel connection) {
    ChannelFuture unused = connection.close();
  }

  /** Answers the request of a connection. */
  private final class Requests extends SimpleChannelInboundHandler<HttpObject> {

    private boolean answered;

    @Override
    protected void channelRead0(ChannelHandlerContext context, HttpObject message) {
      if (message instanceof HttpRequest request && !answered) {
        answered = true;
        // The content of a request, and the requests after the first, are not read.
        context.channel().config().setAutoRead(false);
        answer(context.channel(), request);
      }
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
      LOG.debug("an HTTP connection failed", cause);
      ChannelFuture unused = context.close();
    }
  }

  private void answer(Channel connection, HttpRequest request) {
    if (request.decoderResult().isFailure()) {
      reply(connection, HttpResponseStatus.BAD_REQUEST, "text/plain", "not a request\n");
      return;
    }
    if (!request.method().equals(HttpMethod.GET)) {
      reply(connection, HttpResponseStatus.METHOD_NOT_ALLOWED, "text/plain", "");
      return;
    }
    switch (new QueryStringDecoder(request.uri()).rawPath()) {
      case "/metrics" -> scrape(connection);
      case "/healthz" -> reply(connection, HttpResponseStatus.OK, "text/plain", "ok\n");
      case "/readyz" -> {
        boolean isReady = ready.getAsBoolean();
        reply(
            connection,
            isReady ? HttpResponseStatus.OK : HttpResponseStatus.SERVICE_UNAVAILABLE,
            "text/plain",
            isReady ? "ok\n" : "the GPUs of this node cannot be read\n");
      }
      default -> reply(connection, HttpResponseStatus.NOT_FOUND, "text/plain", "not found\n");
    }
  }

  private void scrape(Channel connection) {
    try {
      scrapes.execute(
          () -> {
            String text;
            try {
              text = metrics.scrape();
            } catch (RuntimeException | Error e) {
              LOG.warn("the metrics cannot be read", e);
              reply(
                  connection,
                  HttpResponseStatus.INTERNAL_SERVER_ERROR,
                  "text/plain",
                  "the metrics cannot be read\n");
              return;
            }
            reply(
                connection,
                HttpResponseStatus.OK,
                "text/plain; version=0.0.4; charset=utf-8",
                text);
          });
    } catch (RejectedExecutionException | OutOfMemoryError e) {
      reply(
          connection,
          HttpResponseStatus.SERVICE_UNAVAILABLE,
          "text/plain",
          "earlier requests for the metrics have not ended\n");
    }
  }

  private static void reply(Channel to, HttpResponseStatus status, String type, String text) {
    FullHttpResponse response =
        new DefaultFullHttpResponse(
            HttpVersion.HTTP_1_1,
            status,
            Unpooled.wrappedBuffer(text.getBytes(StandardCharsets.UTF_8)));
    response
        .headers()
        .set(HttpHeaderNames.CONTENT_TYPE, type)
        .setInt(HttpHeaderNames.CONTENT_LENGTH, response.content().readableBytes())
        .set(HttpHeaderNames.CONNECTION, HttpHeaderValues.CLOSE);
    ChannelFuture unused = to.writeAndFlush(response).addListener(ChannelFutureListener.CLOSE);
  }

  int port() {
    return ((InetSocketAddress) server.localAddress()).getPort();
  }

  @Override
  public void close() {
    ChannelFuture closed = server.close().awaitUninterruptibly();
    scrapes.shutdown();
    Future<?> ended = loop.shutdownGracefully(0, 1, TimeUnit.SECONDS).awaitUninterruptibly();
    if (!closed.isSuccess() || !ended.isSuccess()) {
      LOG.warn("the HTTP endpoint did not end");
    }
  }
}
