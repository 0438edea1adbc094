package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.jnr.TraceFunctions;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Descriptors on their way from one process to another, which need share no namespace: sockets of
 * other processes ({@code pidfd_getfd}), and descriptors sent over sockets ({@code SCM_RIGHTS}). The
 * layouts are those of 64-bit machines.
 */
public final class DescriptorPassing {

  /** {@code struct msghdr}. */
  public static final int MESSAGE_BYTES = 56;

  /** {@code struct iovec}. */
  public static final int VECTOR_BYTES = 16;

  /** A {@code struct cmsghdr} with one descriptor, padded. */
  public static final int CONTROL_BYTES = 24;

  private static final TraceFunctions LIBRARY = NativeLibraries.load(TraceFunctions.class, "c");

  private static final long PIDFD_OPEN = 434;
  private static final long PIDFD_GETFD = 438;
  private static final int CONTROL_LENGTH = 20;
  private static final int SOL_SOCKET = 1;
  private static final int SCM_RIGHTS = 1;

  private DescriptorPassing() {}

  /**
   * Copies a descriptor of another process, which may be traced.
   *
   * @return a descriptor of this JVM, to be closed
   * @throws ErrnoException when it cannot be copied
   */
  public static int copy(int pid, int descriptor) throws ErrnoException {
    long process = checked("pidfd_open", LIBRARY.syscall(PIDFD_OPEN, pid, 0, 0));
    try {
      return (int) checked("pidfd_getfd", LIBRARY.syscall(PIDFD_GETFD, process, descriptor, 0));
    } finally {
      Descriptors.close((int) process);
    }
  }

  /**
   * Sends a descriptor of this JVM.
   *
   * @param socket of this JVM; whoever has the other end receives it with one byte
   * @throws ErrnoException when it cannot be sent
   */
  public static void send(int socket, int descriptor) throws ErrnoException {
    NativeMemory data = NativeMemory.of(1);
    NativeMemory vector = NativeMemory.of(vector(data.address(), 1));
    NativeMemory control =
        NativeMemory.of(
            buffer(CONTROL_BYTES)
                .putLong(CONTROL_LENGTH)
                .putInt(SOL_SOCKET)
                .putInt(SCM_RIGHTS)
                .putInt(descriptor)
                .array());
    NativeMemory message = NativeMemory.of(message(vector.address(), control.address()));
    try {
      long unused = checked("sendmsg", LIBRARY.sendmsg(socket, message.address(), 0));
    } finally {
      data.keep();
      vector.keep();
      control.keep();
      message.keep();
    }
  }

  /** A {@code struct iovec}. */
  public static byte[] vector(long address, long bytes) {
    return buffer(VECTOR_BYTES).putLong(address).putLong(bytes).array();
  }

  /** A {@code struct msghdr} with one vector, and control data of {@link #CONTROL_BYTES}. */
  public static byte[] message(long vector, long control) {
    return buffer(MESSAGE_BYTES)
        .putLong(0)
        .putLong(0)
        .putLong(vector)
        .putLong(1)
        .putLong(control)
        .putLong(CONTROL_BYTES)
        .array();
  }

  /** The descriptor in control data that was received. */
  public static int received(byte[] control) {
    return ByteBuffer.wrap(control).order(ByteOrder.nativeOrder()).getInt(16);
  }

  private static ByteBuffer buffer(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder());
  }

  private static long checked(String call, long result) throws ErrnoException {
    if (result < 0) {
      throw new ErrnoException(call, Libc.errno());
    }
    return result;
  }
}
