package dev.gpuprocess.criu.internal.os;

import static dev.gpuprocess.internal.linux.Libc.check;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import java.nio.ByteBuffer;
import java.util.Optional;
import jnr.ffi.Pointer;

/** Our end of the socket to CRIU: one message is one packet, and a descriptor may come with it. */
public final class PacketSocket {

  /** Larger than any reply; the rest of a longer message from a broken peer is not read. */
  private static final int MESSAGE_LIMIT = 1 << 20;

  // struct msghdr and struct cmsghdr of 64-bit Linux
  private static final int MSG_IOV = 16;
  private static final int MSG_IOVLEN = 24;
  private static final int MSG_CONTROL = 32;
  private static final int MSG_CONTROLLEN = 40;
  private static final int MSGHDR_BYTES = 56;
  private static final int IOVEC_BYTES = 16;
  private static final int CMSG_LEVEL = 8;
  private static final int CMSG_TYPE = 12;
  private static final int CMSG_DATA = 16;
  private static final int CMSG_ALIGNMENT = 8;
  private static final int CMSG_BYTES = 24 + 32; // for one descriptor, and for credentials

  private final int socket;
  private final byte[] peeked = new byte[1];

  public PacketSocket(int socket) {
    this.socket = socket;
  }

  /** Has the kernel attach the sender's pid to every message. */
  public void askForSenders() throws NativeCallException {
    int[] on = {1};
    check(
        LinuxCalls.functions()
            .setsockopt(socket, LinuxCalls.SOL_SOCKET, LinuxCalls.SO_PASSCRED, on, Integer.BYTES),
        "setsockopt SO_PASSCRED");
  }

  public int descriptor() {
    return socket;
  }

  /**
   * Sends one message.
   *
   * @return false if CRIU is gone
   */
  public boolean send(byte[] message) throws NativeCallException {
    while (true) {
      long sent =
          LinuxCalls.functions().send(socket, message, message.length, LinuxCalls.MSG_NOSIGNAL);
      if (sent >= 0) {
        return true;
      }
      int errno = Libc.errno();
      if (errno == LinuxCalls.EPIPE || errno == LinuxCalls.ECONNRESET) {
        return false;
      }
      if (errno != Libc.EINTR) {
        check(sent, "send of " + message.length + " bytes to CRIU");
      }
    }
  }

  /**
   * Receives one message.
   *
   * @return empty at the end of the conversation
   */
  public Optional<Packet> receive() throws NativeCallException {
    long size =
        again(
            () ->
                LinuxCalls.functions()
                    .recv(socket, peeked, 1, LinuxCalls.MSG_PEEK | LinuxCalls.MSG_TRUNC),
            "recv");
    if (size <= 0) {
      return Optional.empty();
    }
    int length = (int) Math.min(size, MESSAGE_LIMIT);
    Pointer data = LinuxCalls.allocate(length);
    Pointer vector = LinuxCalls.allocate(IOVEC_BYTES);
    vector.putPointer(0, data);
    vector.putLong(8, length);
    Pointer control = LinuxCalls.allocate(CMSG_BYTES);
    Pointer message = LinuxCalls.allocate(MSGHDR_BYTES);
    message.putPointer(MSG_IOV, vector);
    message.putLong(MSG_IOVLEN, 1);
    message.putPointer(MSG_CONTROL, control);
    message.putLong(MSG_CONTROLLEN, CMSG_BYTES);
    long received =
        again(
            () -> LinuxCalls.functions().recvmsg(socket, message, LinuxCalls.MSG_CMSG_CLOEXEC),
            "recvmsg");
    byte[] bytes = new byte[(int) Math.max(0, received)];
    data.get(0, bytes, 0, bytes.length);
    long controlLength = message.getLong(MSG_CONTROLLEN);
    return Optional.of(
        new Packet(
            ByteBuffer.wrap(bytes),
            find(control, controlLength, LinuxCalls.SCM_RIGHTS, -1),
            find(control, controlLength, LinuxCalls.SCM_CREDENTIALS, 0)));
  }

  /** The first number in the control message of the given type: a descriptor or a pid. */
  private static int find(Pointer control, long length, int type, int otherwise) {
    long at = 0;
    while (at + CMSG_DATA + Integer.BYTES <= length) {
      long size = control.getLong(at);
      if (control.getInt(at + CMSG_LEVEL) == LinuxCalls.SOL_SOCKET
          && control.getInt(at + CMSG_TYPE) == type) {
        return control.getInt(at + CMSG_DATA);
      }
      if (size < CMSG_DATA) {
        break;
      }
      at += (size + CMSG_ALIGNMENT - 1) / CMSG_ALIGNMENT * CMSG_ALIGNMENT;
    }
    return otherwise;
  }

  /** Ends the conversation; CRIU takes this as a refusal of a notification not yet answered. */
  public boolean hangUp() {
    return LinuxCalls.functions().shutdown(socket, LinuxCalls.SHUT_RDWR) == 0;
  }

  public void close() {
    Libc.close(socket);
  }

  private interface Call {
    long make();
  }

  private static long again(Call call, String name) throws NativeCallException {
    while (true) {
      long size = call.make();
      if (size >= 0) {
        return size;
      }
      int errno = Libc.errno();
      if (errno == LinuxCalls.ECONNRESET) {
        return 0;
      }
      if (errno != Libc.EINTR) {
        check(size, name);
      }
    }
  }
}
