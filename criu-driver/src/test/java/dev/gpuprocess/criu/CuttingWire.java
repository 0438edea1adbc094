package dev.gpuprocess.criu;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Optional;

/**
 * The network between two hosts, which fails at a message: it is lost with the connection, or one
 * of its bits is turned. Knows what a message looks like, from the protocol's side.
 */
final class CuttingWire implements AutoCloseable {

  /** Who speaks. */
  enum From {
    SENDER,
    RECEIVER
  }

  /**
   * What happens to which message.
   *
   * @param from who sends it
   * @param code what it is
   * @param altered whether a bit is turned, and it arrives
   */
  record At(From from, int code, boolean altered) {}

  private static final int GREETING_BYTES = 41;
  private static final int CHECK_BYTES = 4;

  private final ServerSocket server;
  private final int receiver;
  private final Optional<At> at;
  private volatile boolean happened;

  /** Begins to listen in front of a receiver on this host. */
  CuttingWire(int receiver, Optional<At> at) throws IOException {
    this.server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    this.receiver = receiver;
    this.at = at;
    thread(this::connect);
  }

  int port() {
    return server.getLocalPort();
  }

  /** Whether the message came. */
  boolean happened() {
    return happened;
  }

  private interface Work {
    void run() throws IOException;
  }

  private static void thread(Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (IOException ended) {
                return; // both ends see that
              }
            },
            "cutting wire");
    thread.setDaemon(true);
    thread.start();
  }

  private void connect() throws IOException {
    Socket sender = server.accept();
    Socket there = new Socket(InetAddress.getLoopbackAddress(), receiver);
    thread(() -> pass(From.SENDER, sender, there));
    thread(() -> pass(From.RECEIVER, there, sender));
  }

  private void pass(From who, Socket from, Socket to) throws IOException {
    try (from;
        to) {
      DataInputStream in = new DataInputStream(from.getInputStream());
      DataOutputStream out = new DataOutputStream(to.getOutputStream());
      out.write(in.readNBytes(GREETING_BYTES));
      while (true) {
        int code = in.readByte();
        int count = in.readInt();
        byte[] rest = in.readNBytes(count + CHECK_BYTES);
        if (at.filter(each -> each.from == who && each.code == code).isPresent()) {
          happened = true;
          if (!at.get().altered) {
            return;
          }
          rest[0] ^= 1;
        }
        out.writeByte(code);
        out.writeInt(count);
        out.write(rest);
      }
    }
  }

  @Override
  public void close() throws IOException {
    server.close();
  }
}
