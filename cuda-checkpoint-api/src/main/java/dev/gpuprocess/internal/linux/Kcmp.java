package dev.gpuprocess.internal.linux;

import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import org.jspecify.annotations.Nullable;

/**
 * Whether two processes have something in common ({@code kcmp}), which CRIU too asks. Needs the
 * right to trace both.
 */
public final class Kcmp {

  private static final long FILE = 0;
  private static final long VM = 1;
  private static final long FILES = 2;

  private Kcmp() {}

  /**
   * Whether they have one memory, as between {@code vfork} and the execution of a program.
   *
   * @throws NativeCallException when that cannot be told, as of one that is gone
   */
  public static boolean sharesMemory(int process, int other) throws NativeCallException {
    return isSame(process, other, VM, 0, null);
  }

  /**
   * Whether a descriptor that one of them opens is open in the other.
   *
   * @throws NativeCallException when that cannot be told
   */
  public static boolean sharesDescriptors(int process, int other) throws NativeCallException {
    return isSame(process, other, FILES, 0, null);
  }

  /**
   * Whether a descriptor is of one opening of a file in both, as after {@code fork}.
   *
   * @return false where one of them has no descriptor of this number
   * @throws NativeCallException when that cannot be told
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
