package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/**
 * Asks the kernel for the UNIX sockets of a network namespace (sock_diag(7)). {@code
 * /proc/net/unix} shows neither which sockets are connected to each other nor where a name that
 * contains a newline ends.
 */
final class UnixSockets {

  private static final int AF_NETLINK = 16;
  private static final int SOCK_RAW = 3;
  private static final int NETLINK_SOCK_DIAG = 4;
  private static final int CLONE_NEWNET = 0x40000000;

  // struct nlmsghdr and struct unix_diag_req
  private static final int HEADER_BYTES = 16;
  private static final int REQUEST_BYTES = HEADER_BYTES + 24;
  private static final short SOCK_DIAG_BY_FAMILY = 20;
  private static final short REQUEST_AND_DUMP = 0x301;
  private static final int ERROR = 2;
  private static final int DONE = 3;
  private static final int SHOW_NAME = 1;
  private static final int SHOW_PEER = 4;
  private static final int SHOW_WAITING = 8;
  private static final int ALL_STATES = -1;

  /** The kernel sends no message longer than this. */
  private static final int BUFFER_BYTES = 32 << 10;

  private UnixSockets() {}

  /**
   * Lists the UNIX sockets of a network namespace.
   *
   * @param pid a process in the namespace
   * @return the sockets by inode
   * @throws IOException if the kernel refuses, as for another namespace without CAP_SYS_ADMIN
   */
  static Map<Long, UnixSocket> seenBy(int pid) throws IOException {
    Path namespace = ProcFs.file(pid, "ns", "net");
    Path own = ProcFs.kernel("thread-self/ns/net");
    if (Files.readSymbolicLink(namespace).equals(Files.readSymbolicLink(own))) {
      return ask();
    }
    CompletableFuture<Map<Long, UnixSocket>> answer = new CompletableFuture<>();
    // A thread has its own network namespace; nothing else must ever run on this one.
    Thread visitor = new Thread(() -> visit(namespace, answer), "gpuprocess-sockets");
    visitor.setDaemon(true);
    visitor.start();
    try {
      return answer.join();
    } catch (CompletionException e) {
      throw new IOException(e.getCause() == null ? e : e.getCause());
    }
  }

  private static void visit(Path namespace, CompletableFuture<Map<Long, UnixSocket>> answer) {
    try {
      int descriptor = Libc.open(namespace, Libc.O_RDONLY);
      try {
        Libc.check(Libc.functions().setns(descriptor, CLONE_NEWNET), "setns");
      } finally {
        Libc.close(descriptor);
      }
      answer.complete(ask());
    } catch (IOException | RuntimeException | Error e) {
      answer.completeExceptionally(e);
    }
  }

  private static Map<Long, UnixSocket> ask() throws IOException {
    int socket =
        Libc.check(
            Libc.functions().socket(AF_NETLINK, SOCK_RAW | Libc.O_CLOEXEC, NETLINK_SOCK_DIAG),
            "socket");
    try {
      byte[] request = request();
      Libc.check(Libc.functions().send(socket, request, request.length, 0), "send");
      Map<Long, UnixSocket> sockets = new HashMap<>();
      byte[] bytes = new byte[BUFFER_BYTES];
      while (true) {
        // The kernel has the next part ready as soon as the previous one is read, so there is
        // nothing to wait for.
        int length =
            Libc.check(
                Libc.functions()
                    .recv(socket, bytes, bytes.length, Libc.MSG_DONTWAIT | Libc.MSG_TRUNC),
                "recv");
        if (length > bytes.length || length < HEADER_BYTES) {
          throw new IOException("the kernel answered " + length + " bytes");
        }
        if (isLast(ByteBuffer.wrap(bytes, 0, length).order(ByteOrder.nativeOrder()), sockets)) {
          return sockets;
        }
      }
    } catch (IllegalArgumentException e) {
      throw new IOException("the kernel's answer cannot be read: " + e.getMessage(), e);
    } finally {
      Libc.close(socket);
    }
  }

  private static byte[] request() {
    return ByteBuffer.allocate(REQUEST_BYTES)
        .order(ByteOrder.nativeOrder())
        .putInt(REQUEST_BYTES)
        .putShort(SOCK_DIAG_BY_FAMILY)
        .putShort(REQUEST_AND_DUMP)
        .putInt(0)
        .putInt(0)
        .put((byte) Libc.AF_UNIX)
        .put((byte) 0)
        .putShort((short) 0)
        .putInt(ALL_STATES)
        .putInt(0)
        .putInt(SHOW_NAME | SHOW_PEER | SHOW_WAITING)
        .putLong(0)
        .array();
  }

  /** Reads one packet, which holds several messages; returns whether it was the last one. */
  private static boolean isLast(ByteBuffer packet, Map<Long, UnixSocket> sockets)
      throws IOException {
    int at = 0;
    while (packet.limit() - at >= HEADER_BYTES) {
      int length = packet.getInt(at);
      int type = Short.toUnsignedInt(packet.getShort(at + 4));
      if (type == DONE) {
        return true;
      }
      if (type == ERROR || length < HEADER_BYTES || length > packet.limit() - at) {
        throw new IOException("the kernel does not list UNIX sockets (unix_diag)");
      }
      if (type == SOCK_DIAG_BY_FAMILY) {
        ByteBuffer message = packet.slice(at + HEADER_BYTES, length - HEADER_BYTES);
        UnixSocket socket = UnixSocket.parse(message.order(packet.order()));
        sockets.put(socket.inode(), socket);
      }
      at += (length + 3) / 4 * 4;
    }
    return false;
  }
}
