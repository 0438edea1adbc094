package dev.gpuprocess.internal.linux;

import java.util.Arrays;
import java.util.Optional;

/**
 * A duplicate of a socket of another process. Its options are read and set without the process,
 * which may be stopped.
 */
public final class TakenSocket implements AutoCloseable {

  private static final int LONGEST = 64;

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
    return new TakenSocket(ProcessDescriptor.take(pid, pid, number));
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

  @Override
  public void close() {
    Descriptors.close(descriptor);
  }
}
