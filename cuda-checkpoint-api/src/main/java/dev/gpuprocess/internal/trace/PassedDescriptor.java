package dev.gpuprocess.internal.trace;

import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.os.ProcessDescriptor;
import java.io.IOException;

/**
 * A descriptor of ours in another process, whatever namespaces that is in: it makes a pair of
 * sockets, we take one end and send the descriptor through it. It is closed there by {@link
 * #close}, and by the thread itself if this JVM is killed before.
 */
public final class PassedDescriptor implements AutoCloseable {

  private static final int SCRATCH = 4096;
  private static final int MESSAGE = 64;

  private static final int AF_UNIX = 1;
  private static final int SOCK_DGRAM_CLOEXEC = 2 | 0x80000;
  private static final int MSG_DONTWAIT_CMSG_CLOEXEC = 0x40 | 0x40000000;

  private final BorrowedThread thread;
  private final long scratch;
  private final int number;

  private PassedDescriptor(BorrowedThread thread, long scratch, int number) {
    this.thread = thread;
    this.scratch = scratch;
    this.number = number;
  }

  /**
   * Passes a descriptor. It is closed when the process executes another program.
   *
   * @param thread of the process
   * @param descriptor ours, which stays open
   */
  public static PassedDescriptor pass(BorrowedThread thread, int descriptor)
      throws UntraceableException, IOException {
    long scratch = thread.map(SCRATCH);
    thread.call(SystemCall.SOCKETPAIR, AF_UNIX, SOCK_DGRAM_CLOEXEC, 0, scratch);
    long pair = thread.memory().readLong(scratch);
    int first = (int) pair;
    int second = (int) (pair >>> 32);
    thread.onTheWayHome(SystemCall.CLOSE, first);
    thread.onTheWayHome(SystemCall.CLOSE, second);
    int socket = ProcessDescriptor.take(thread.pid(), thread.task(), first);
    try {
      ProcessDescriptor.send(socket, descriptor);
    } finally {
      Descriptors.close(socket);
    }
    int number = receive(thread, scratch + MESSAGE, second);
    thread.notOnTheWayHome();
    thread.notOnTheWayHome();
    thread.onTheWayHome(SystemCall.CLOSE, number);
    thread.call(SystemCall.CLOSE, second);
    thread.call(SystemCall.CLOSE, first);
    return new PassedDescriptor(thread, scratch, number);
  }

  private static int receive(BorrowedThread thread, long message, int socket)
      throws UntraceableException, RemoteCallException, NativeCallException {
    thread.memory().write(message, ProcessDescriptor.toReceive(message));
    thread.call(SystemCall.RECVMSG, socket, message, MSG_DONTWAIT_CMSG_CLOEXEC);
    return (int) thread.memory().readLong(message + ProcessDescriptor.RECEIVED);
  }

  /** Its number there. */
  public int number() {
    return number;
  }

  /** Closes it there. */
  @Override
  public void close() throws UntraceableException, IOException {
    thread.notOnTheWayHome();
    thread.call(SystemCall.CLOSE, number);
    thread.unmap(scratch, SCRATCH);
  }
}
