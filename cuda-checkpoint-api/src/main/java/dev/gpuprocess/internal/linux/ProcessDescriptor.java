package dev.gpuprocess.internal.linux;

/** Duplicates descriptors of other processes, and sends descriptors through sockets. */
public final class ProcessDescriptor {

  private static final long PIDFD_THREAD = 0x80;

  /** Offsets in {@code struct msghdr} and in the structs behind it. */
  private static final int IOV = 16;

  private static final int IOVS = 24;
  private static final int CONTROL = 32;
  private static final int CONTROL_LENGTH = 40;
  private static final int VECTOR = 56;
  private static final int MESSAGE = 72;
  private static final int BYTE = 96;
  private static final int BYTES = 104;

  private static final long RIGHTS = 1L << 32 | 1; // SCM_RIGHTS and SOL_SOCKET

  /** {@code CMSG_LEN} of one descriptor. */
  private static final int MESSAGE_LENGTH = 20;

  /** {@code CMSG_SPACE} of one descriptor. */
  private static final int MESSAGE_SPACE = 24;

  private static final int SENT = MESSAGE + 16;

  /** {@code struct cmsghdr}, which the kernel writes before a received descriptor. */
  private static final int MESSAGE_HEAD = 16;

  private ProcessDescriptor() {}

  /**
   * Duplicates a descriptor of another process ({@code pidfd_getfd}).
   *
   * @param pid the process
   * @param task a living thread of the process
   * @param number the descriptor there
   * @return a descriptor of this JVM, closed at exec
   */
  public static int take(int pid, int task, int number) throws NativeCallException {
    // If the first thread of the process has ended, only the other threads have descriptors.
    long process = Libc.LIBRARY.syscall(SystemCalls.PIDFD_OPEN, task, PIDFD_THREAD, 0);
    if (process < 0) {
      process =
          Libc.check(Libc.LIBRARY.syscall(SystemCalls.PIDFD_OPEN, pid, 0, 0), "pidfd_open " + pid);
    }
    try {
      return Libc.check(
          Libc.LIBRARY.syscall(SystemCalls.PIDFD_GETFD, process, number, 0),
          "pidfd_getfd %s of process %s".formatted(number, pid));
    } finally {
      Descriptors.close((int) process);
    }
  }

  /** Sends a descriptor together with one byte, without blocking. */
  public static void send(int socket, int descriptor) throws NativeCallException {
    NativeMemory memory = NativeMemory.of(BYTES);
    memory.write(0, message(memory.address(), memory.address() + MESSAGE));
    memory.putLong(MESSAGE, MESSAGE_LENGTH);
    memory.putLong(MESSAGE + 8, RIGHTS);
    memory.putLong(SENT, descriptor);
    long sent =
        memory.with(
            message ->
                Libc.LIBRARY.sendmsg(socket, message, Libc.MSG_DONTWAIT | Libc.MSG_NOSIGNAL));
    int unused = Libc.check(sent, "sendmsg");
  }

  /**
   * Makes a {@code struct msghdr} for receiving one descriptor and one byte.
   *
   * @param address the address at which the caller will store the result, 104 bytes
   * @param received the address to which the kernel writes the descriptor, 4 bytes; it also
   *     overwrites the 16 bytes before. Nothing is written when no descriptor is received
   */
  public static byte[] toReceive(long address, long received) {
    return message(address, received - MESSAGE_HEAD);
  }

  private static byte[] message(long address, long control) {
    NativeMemory memory = NativeMemory.of(BYTES);
    memory.putLong(IOV, address + VECTOR);
    memory.putLong(IOVS, 1);
    memory.putLong(CONTROL, control);
    memory.putLong(CONTROL_LENGTH, MESSAGE_SPACE);
    memory.putLong(VECTOR, address + BYTE);
    memory.putLong(VECTOR + 8, 1);
    return memory.read(0, BYTES);
  }
}
