package dev.gpuprocess.internal.linux;

import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import org.jspecify.annotations.Nullable;

/**
 * Compares the kernel resources of two processes ({@code kcmp}), as CRIU does. Needs the right to
 * trace both.
 */
public final class Kcmp {

  private static final long FILE = 0;
  private static final long VM = 1;
  private static final long FILES = 2;

  private Kcmp() {}

  /**
   * Returns whether they share their memory, as between {@code vfork} and {@code execve}.
   *
   * @throws NativeCallException when that is unknown, as for an exited process
   */
  public static boolean sharesMemory(int process, int other) throws NativeCallException {
    return isSame(process, other, VM, 0, null);
  }

  /**
   * Returns whether they share their table of descriptors.
   *
   * @throws NativeCallException when that is unknown
   */
  public static boolean sharesDescriptors(int process, int other) throws NativeCallException {
    return isSame(process, other, FILES, 0, null);
  }

  /**
   * Returns whether a descriptor refers to the same open file description in both, as after {@code
   * fork}.
   *
   * @return false if one of them has no descriptor of this number
   * @throws NativeCallException when that is unknown
   */
  public static boolean isSameOpening(int process, int other, int descriptor)
      throws NativeCallException {
    try {
      Pointer number =
          descriptor == 0 ? null : Pointer.wrap(Runtime.getSystemRuntime(), descriptor);
      return isSame(process, other, FILE, descriptor, number);
    } catch (NativeCallException e) {
      if (e.errno() == Libc.EBADF) {
        return false;
      }
      throw e;
    }
  }

  private static boolean isSame(
      int process, int other, long what, long first, @Nullable Pointer second)
      throws NativeCallException {
    int order =
        Libc.check(
            Libc.LIBRARY.syscall(SystemCalls.KCMP, process, other, what, first, second),
            "kcmp of processes %s and %s".formatted(process, other));
    return order == 0;
  }
}
