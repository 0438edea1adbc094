package dev.gpuprocess.internal.wire;

import dev.gpuprocess.image.ImageKey;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.Tls;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The end of migrations that listens, for one of them. May be closed by another thread. */
public final class Wires implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final int BACKLOG = 4;

  /** How long the other end may be silent before it has greeted. */
  private static final int GREETING_MILLIS = 10_000;

  private final ServerSocket server;
  private final PageEndpoint here;
  private final @Nullable TlsSockets tls;
  private final @Nullable ImageKey key;

  private Wires(
      ServerSocket server, PageEndpoint here, @Nullable TlsSockets tls, @Nullable ImageKey key) {
    this.server = server;
    this.here = here;
    this.tls = tls;
    this.key = key;
  }

  /** Begins to listen. */
  public static Wires listen(PageEndpoint here, @Nullable ImageKey key) throws IOException {
    TlsSockets tls = sockets(here.tls());
    ServerSocket server = new ServerSocket();
    try {
      server.bind(new InetSocketAddress(here.host(), here.port()), BACKLOG);
    } catch (IOException e) {
      server.close();
      throw e;
    }
    return new Wires(
        server, new PageEndpoint(here.host(), server.getLocalPort(), here.tls()), tls, key);
  }

  private static @Nullable TlsSockets sockets(@Nullable Tls tls) throws IOException {
    return tls == null ? null : TlsSockets.of(tls);
  }

  /**
   * Connects to one that listens.
   *
   * @param limit for connecting
   * @param life when the connection is cut
   */
  public static Wire to(PageEndpoint there, @Nullable ImageKey key, Duration limit, Duration life)
      throws IOException {
    TlsSockets tls = sockets(there.tls());
    Socket raw = new Socket();
    try {
      long end = Durations.end(life);
      raw.connect(new InetSocketAddress(there.host(), there.port()), millis(limit));
      prepare(raw, limit);
      Socket socket = tls == null ? raw : tls.connected(raw, there.host());
      return greeted(raw, new Wire(raw, socket, true, key, left(end)));
    } catch (IOException e) {
      raw.close();
      throw e;
    }
  }

  private static int millis(Duration limit) {
    return (int) Math.min(Integer.MAX_VALUE, Math.max(1, Durations.millis(limit)));
  }

  private static Duration left(long end) {
    return Duration.ofNanos(Math.max(1, Durations.left(end)));
  }

  private static void prepare(Socket socket, Duration limit) throws IOException {
    socket.setTcpNoDelay(true);
    socket.setKeepAlive(true);
    socket.setSoTimeout(Math.min(GREETING_MILLIS, millis(limit)));
  }

  private static Wire greeted(Socket socket, Wire wire) throws IOException {
    socket.setSoTimeout(0); // from here on its deadline ends every wait
    return wire;
  }

  /** Where it listens. */
  public PageEndpoint here() {
    return here;
  }

  /**
   * Waits for somebody who connects, and speaks the protocol. Who does not is turned away, and it
   * goes on waiting: a port is looked at by others.
   *
   * @param end of the wait, and of the connection's time
   */
  public Wire accept(long end) throws IOException {
    while (true) {
      long left = Durations.left(end);
      if (left <= 0) {
        throw new SocketTimeoutException("nobody came in time");
      }
      server.setSoTimeout(millis(Duration.ofNanos(left)));
      Socket raw = server.accept();
      try {
        prepare(raw, left(end));
        Socket socket = tls == null ? raw : tls.accepted(raw);
        return greeted(raw, new Wire(raw, socket, false, key, left(end)));
      } catch (IOException stranger) {
        raw.close();
        LOG.info("a connection to {} was turned away: {}", here, stranger.toString());
      }
    }
  }

  @Override
  public void close() {
    try {
      server.close();
    } catch (IOException e) {
      throw new AssertionError("a socket closes", e);
    }
  }
}
