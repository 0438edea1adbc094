package dev.gpuprocess.internal.linux;

import java.util.Arrays;
import java.util.Optional;

/**
 * A duplicate of a socket of another process. Its options are read and set without the process,
 * which may be stopped.
 */
public final class TakenSocket implements AutoCloseable {

  private static final int LONGEST = 64;

  private static final int SOL_SOCKET = 1;
  private static final int SO_PEERNAME = 28;
  private static final int SO_DOMAIN = 39;

  /** The length of the address of a UNIX socket without a name: its family. */
  private static final int NAMELESS = 2;

  private final int descriptor;

  private TakenSocket(int descriptor) {
    this.descriptor = descriptor;
  }

  /**
   * Duplicates a socket ({@code pidfd_getfd}).
   *
   * @param pid the process
   * @param number the descriptor there
   */
  public static TakenSocket of(int pid, int number) throws NativeCallException {
    return of(pid, pid, number);
  }

  /**
   * Duplicates a socket of a process whose first thread may have ended.
   *
   * @param pid the process
   * @param task a living thread of the process
   * @param number the descriptor there
   */
  public static TakenSocket of(int pid, int task, int number) throws NativeCallException {
    return new TakenSocket(ProcessDescriptor.take(pid, task, number));
  }

  /**
   * Reads an option.
   *
   * @return at most 64 bytes; empty when the socket has no such option
   */
  public Optional<byte[]> get(int level, int name) {
    byte[] value = new byte[LONGEST];
    int length = read(level, name, value);
    return length < 0 ? Optional.empty() : Optional.of(Arrays.copyOf(value, length));
  }

  /**
   * Reads an option that has a question in it.
   *
   * @param value the question, and then the answer
   * @return its length; negative when the socket has no answer
   */
  public int read(int level, int name, byte[] value) {
    int[] length = {value.length};
    return Libc.LIBRARY.getsockopt(descriptor, level, name, value, length) == 0 ? length[0] : -1;
  }

  /** Sets an option; returns whether the kernel accepts it. */
  public boolean set(int level, int name, byte[] value) {
    return Libc.LIBRARY.setsockopt(descriptor, level, name, value, value.length) == 0;
  }

  /**
   * Returns whether it is a UNIX socket that is connected to one without a name, as the sockets of
   * a pair are. One that is connected to a service is not.
   */
  public boolean isOfPair() {
    byte[] domain = new byte[Integer.BYTES];
    // The kernel refuses to give more bytes than the name has.
    return read(SOL_SOCKET, SO_DOMAIN, domain) == Integer.BYTES
        && domain[0] == Libc.AF_UNIX
        && read(SOL_SOCKET, SO_PEERNAME, new byte[NAMELESS]) == NAMELESS
        && read(SOL_SOCKET, SO_PEERNAME, new byte[NAMELESS + 1]) < 0;
  }

  /** Sends a descriptor of this JVM together with one byte, without blocking. */
  public void send(int ours) throws NativeCallException {
    ProcessDescriptor.send(descriptor, ours);
  }

  @Override
  public void close() {
    Descriptors.close(descriptor);
  }
}
