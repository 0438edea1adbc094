package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.ProcessDescriptor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.jspecify.annotations.Nullable;

/**
 * A descriptor of ours in another process, whatever namespaces that is in: it makes a pair of
 * sockets, we take one end and send the descriptor through it. It is closed there by {@link
 * #close}, and by the thread itself if this JVM is killed before.
 */
public final class PassedDescriptor implements AutoCloseable {

  private static final int SCRATCH = 4096;
  private static final int VECTOR = 16;
  private static final int MESSAGE = 64;

  private static final int AF_UNIX = 1;
  private static final int SOCK_DGRAM_CLOEXEC = 2 | 0x80000;
  private static final int MSG_DONTWAIT_CMSG_CLOEXEC = 0x40 | 0x40000000;

  private static final int NONE = -1;

  /** On the way home: three descriptors are closed, and memory is unmapped. */
  private static final int CALLS = 4;

  private static final int EMFILE = 24;

  private final RemoteThread thread;
  private final int number;

  private PassedDescriptor(RemoteThread thread, int number) {
    this.thread = thread;
    this.number = number;
  }

  /**
   * Passes a descriptor. It is closed when the process executes another program.
   *
   * @param thread of the process
   * @param descriptor ours, which stays open
   * @throws IOException when the process has not three numbers of descriptors to spare, or a
   *     security module forbids it
   */
  public static PassedDescriptor pass(RemoteThread thread, int descriptor)
      throws UntraceableException, IOException {
    long scratch = thread.map(SCRATCH);
    long pair = socketpair(thread, scratch);
    int first = (int) pair;
    int second = (int) (pair >>> Integer.SIZE);
    int socket = ProcessDescriptor.take(thread.pid(), thread.task(), first);
    try {
      ProcessDescriptor.send(socket, descriptor);
    } finally {
      Descriptors.close(socket);
    }
    return new PassedDescriptor(thread, receive(thread, scratch + MESSAGE, second));
  }

  /**
   * The kernel writes both numbers into the call that closes the first, and on the way home the
   * thread copies the second one into the call that closes that.
   */
  private static long socketpair(RemoteThread thread, long scratch)
      throws UntraceableException, IOException {
    long first = thread.onTheWayHome(SystemCall.CLOSE, NONE);
    long second = thread.onTheWayHome(SystemCall.CLOSE, NONE);
    long self = thread.call(SystemCall.GETTID);
    thread.memory().write(scratch, vectors(second, first + Integer.BYTES));
    thread.onTheWayHome(SystemCall.PROCESS_VM_READV, self, scratch, 1, scratch + VECTOR, 1, 0);
    try {
      thread.call(SystemCall.SOCKETPAIR, AF_UNIX, SOCK_DGRAM_CLOEXEC, 0, first);
    } catch (RemoteCallException e) {
      throw e.errno() == EMFILE ? noNumber(thread, e) : e;
    }
    thread.already();
    return thread.memory().readLong(first);
  }

  /** {@code struct iovec}: where to, and from where. */
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
   * The kernel writes the number straight into the call that closes it: at no moment is the
   * descriptor there and nothing on the way home that closes it.
   */
  private static int receive(RemoteThread thread, long message, int socket)
      throws UntraceableException, IOException {
    long number = thread.onTheWayHome(SystemCall.CLOSE, NONE);
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
        "process %s cannot be given a descriptor: it has too many open, or a security module forbids it: raise its limit (prlimit --nofile)"
            .formatted(thread.pid()),
        cause);
  }

  /** Its number there. */
  public int number() {
    return number;
  }

  /** Closes it there. */
  @Override
  public void close() throws UntraceableException, IOException {
    for (int call = 0; call < CALLS; call++) {
      thread.already();
    }
  }
}
