package dev.gpuprocess.internal.wire;

import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.PageEndpoint;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.security.SecureRandom;

/**
 * A port of this host alone, at which its CRIU is met. Its loopback address is one of millions that
 * nobody looks at, so no other program connects by chance.
 */
public final class LocalPort implements AutoCloseable {

  private static final SecureRandom RANDOM = new SecureRandom();
  private static final byte LOOPBACK = 127;
  private static final int ADDRESS_BYTES = 4;
  private static final int LAST = 254;

  private final ServerSocket server;

  private LocalPort(ServerSocket server) {
    this.server = server;
  }

  /** An address that nobody has; a port of it can be listened on. */
  public static InetAddress address() throws IOException {
    byte[] address = new byte[ADDRESS_BYTES];
    RANDOM.nextBytes(address);
    address[0] = LOOPBACK;
    address[ADDRESS_BYTES - 1] = (byte) (1 + RANDOM.nextInt(LAST));
    return InetAddress.getByAddress(address);
  }

  /** Begins to listen. */
  public static LocalPort open() throws IOException {
    ServerSocket server = new ServerSocket();
    server.bind(new InetSocketAddress(address(), 0), 1);
    return new LocalPort(server);
  }

  /** A port that is free, for CRIU to listen on. */
  public static PageEndpoint free() throws IOException {
    try (LocalPort port = open()) {
      return port.endpoint();
    }
  }

  /** Where it is. */
  public PageEndpoint endpoint() {
    return new PageEndpoint(server.getInetAddress().getHostAddress(), server.getLocalPort());
  }

  /** Waits for CRIU. */
  Socket accept(long end) throws IOException {
    server.setSoTimeout(
        (int) Math.min(Integer.MAX_VALUE, Math.max(1, Durations.left(end) / 1_000_000)));
    return server.accept();
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
