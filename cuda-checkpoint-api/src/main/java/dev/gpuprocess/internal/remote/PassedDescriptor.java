package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.ProcessDescriptor;
import dev.gpuprocess.internal.linux.TakenSocket;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.jspecify.annotations.Nullable;

/**
 * A descriptor of this JVM that was passed to another process, in any namespace. The process
 * creates a pair of sockets, and this JVM takes one of them and sends the descriptor through it.
 * {@link #close} closes the descriptor in the process, and so does the thread if this JVM is
 * killed.
 */
public final class PassedDescriptor implements AutoCloseable {

  private static final int SCRATCH = 4096;
  private static final int VECTOR = 16;
  private static final int MESSAGE = 64;

  private static final int SOCK_DGRAM_CLOEXEC = 2 | Libc.O_CLOEXEC;
  private static final int MSG_DONTWAIT_CMSG_CLOEXEC = Libc.MSG_DONTWAIT | Libc.MSG_CMSG_CLOEXEC;

  private static final int NONE = -1;

  /** Exit calls: three descriptors are closed, and memory is unmapped. */
  private static final int CALLS = 4;

  private final RemoteThread thread;
  private final int number;

  private PassedDescriptor(RemoteThread thread, int number) {
    this.thread = thread;
    this.number = number;
  }

  /**
   * Passes a descriptor, with close-on-exec set.
   *
   * @param descriptor of this JVM, which stays open
   * @throws IOException if the process cannot open three more descriptors, or a security module
   *     forbids it
   */
  public static PassedDescriptor pass(RemoteThread thread, int descriptor)
      throws UntraceableException, IOException {
    long scratch = thread.map(SCRATCH);
    long pair = socketpair(thread, scratch);
    int first = (int) pair;
    int second = (int) (pair >>> Integer.SIZE);
    try (TakenSocket socket = TakenSocket.of(thread.pid(), thread.task(), first)) {
      if (!socket.isOfPair()) { // its number was read from memory of the process
        throw new IOException(
            "process %s exchanged the socket through which it was to receive a descriptor"
                .formatted(thread.pid()));
      }
      thread.requireTime();
      socket.send(descriptor);
    }
    return new PassedDescriptor(thread, receive(thread, scratch + MESSAGE, second));
  }

  /**
   * Creates the sockets. The kernel writes both numbers into the exit call that closes the first
   * socket, and an exit call copies the second number into the call that closes the second socket.
   */
  private static long socketpair(RemoteThread thread, long scratch)
      throws UntraceableException, IOException {
    long first = thread.callAtExit(SystemCall.CLOSE, NONE);
    long second = thread.callAtExit(SystemCall.CLOSE, NONE);
    long self = thread.call(SystemCall.GETTID);
    thread.memory().write(scratch, vectors(second, first + Integer.BYTES));
    thread.callAtExit(SystemCall.PROCESS_VM_READV, self, scratch, 1, scratch + VECTOR, 1, 0);
    try {
      thread.call(SystemCall.SOCKETPAIR, Libc.AF_UNIX, SOCK_DGRAM_CLOEXEC, 0, first);
    } catch (RemoteCallException e) {
      throw e.errno() == Libc.EMFILE ? noNumber(thread, e) : e;
    }
    thread.callNow();
    return thread.memory().readLong(first);
  }

  /** Two {@code struct iovec}: the destination and the source. */
  private static byte[] vectors(long to, long from) {
    return ByteBuffer.allocate(2 * VECTOR)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putLong(to)
        .putLong(Integer.BYTES)
        .putLong(from)
        .putLong(Integer.BYTES)
        .array();
  }

  /**
   * Receives the descriptor. The kernel writes its number into the exit call that closes it, so it
   * is closed at whatever moment this JVM is killed.
   */
  private static int receive(RemoteThread thread, long message, int socket)
      throws UntraceableException, IOException {
    long number = thread.callAtExit(SystemCall.CLOSE, NONE);
    thread.memory().write(message, ProcessDescriptor.toReceive(message, number));
    thread.call(SystemCall.RECVMSG, socket, message, MSG_DONTWAIT_CMSG_CLOEXEC);
    int received = (int) thread.memory().readLong(number);
    if (received == NONE) {
      throw noNumber(thread, null);
    }
    return received;
  }

  private static IOException noNumber(RemoteThread thread, @Nullable Exception cause) {
    return new IOException(
        "process %s cannot receive a descriptor: too many are open, or a security module forbids it. Raise its limit (prlimit --nofile)."
            .formatted(thread.pid()),
        cause);
  }

  /** Returns its number in the process. */
  public int number() {
    return number;
  }

  /** Closes the descriptor in the process. */
  @Override
  public void close() throws UntraceableException, IOException {
    for (int call = 0; call < CALLS; call++) {
      thread.callNow();
    }
  }
}
