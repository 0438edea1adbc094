package dev.gpuprocess.internal.linux;

/** Descriptors that are taken from another process, and sent through sockets. */
public final class ProcessDescriptor {

  private static final long PIDFD_THREAD = 0x80;

  /** Offsets in {@code struct msghdr}, with what it points to behind it. */
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
   * @param task one of its threads, which lives
   * @param number the descriptor there
   * @return ours, closed at exec
   */
  public static int take(int pid, int task, int number) throws NativeCallException {
    // Of a process whose first thread has ended only the others have descriptors.
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

  /** Sends a descriptor, and a byte with it, without waiting. */
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
   * A {@code struct msghdr} to receive one descriptor and one byte with.
   *
   * @param address where the struct and the byte will be, 104 bytes
   * @param received where the kernel shall write the descriptor's number, in 4 bytes; the 16 bytes
   *     before are overwritten too. All stay as they are when no descriptor is received
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
