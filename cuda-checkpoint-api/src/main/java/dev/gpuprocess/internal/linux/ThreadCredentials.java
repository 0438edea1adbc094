package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.Capabilities;
import java.io.IOException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Makes single system calls with the credentials of another user. To the kernel, credentials belong
 * to a thread: the C library makes all threads change theirs, the system calls do not. A thread of
 * root that takes another user for its file accesses loses root's rights to files until it takes
 * its own user back (capabilities(7)). Only for platform threads.
 */
final class ThreadCredentials {

  private static final long GET_DUMPABLE = 3;
  private static final long SET_DUMPABLE = 4;
  private static final int NO_ID = -1;
  private static final int GROUP_BYTES = 4;

  private static final long RIGHTS_TO_FILES = 1 << 1 | 1 << 2; // DAC_OVERRIDE, DAC_READ_SEARCH

  static {
    // Loads all classes that a call needs: another user may not be able to read the class path.
    long unused = result(Libc.LIBRARY.syscall(SystemCalls.GETPID, 0, 0, 0, 0, null));
    int unusedToo = Libc.errno();
  }

  private ThreadCredentials() {}

  /**
   * The kernel clears this flag of the whole process when a thread changes its user, so it is read
   * before the first change.
   */
  private static final long DUMPABLE = Libc.LIBRARY.syscall(SystemCalls.PRCTL, GET_DUMPABLE, 0, 0);

  /**
   * Makes a system call.
   *
   * @param other the credentials to use; null for those of this JVM
   * @return the result, or a negative errno
   * @throws IOException when this JVM may not use the credentials; the call was not made
   */
  static long call(
      @Nullable Credentials other, long number, long first, long second, long third, long fourth)
      throws IOException {
    LibcFunctions c = Libc.LIBRARY;
    if (other == null) {
      return result(c.syscall(number, first, second, third, fourth, null));
    }
    Credentials ours = Credentials.ours();
    if (ours.user() != 0 && hasRightsToFiles()) {
      throw refused(other, "without CAP_DAC_OVERRIDE, or as root");
    }
    boolean isOther = take(c, other);
    long returned = isOther ? result(c.syscall(number, first, second, third, fourth, null)) : 0;
    boolean isBack = take(c, ours);
    c.syscall(SystemCalls.PRCTL, SET_DUMPABLE, DUMPABLE, 0);
    if (!isBack) {
      throw new IllegalStateException("a thread could not take its own credentials back");
    }
    if (!isOther) {
      throw refused(other, "as root, with CAP_SETUID and CAP_SETGID");
    }
    return returned;
  }

  /** Returns whether this JVM has rights that the kernel takes only from root. */
  private static boolean hasRightsToFiles() {
    return (Capabilities.of(ProcessHandle.current().pid()).effective() & RIGHTS_TO_FILES) != 0;
  }

  private static IOException refused(Credentials other, String how) {
    return new IOException(
        "this JVM may not open files as user %s: run it %s"
            .formatted(Integer.toUnsignedString(other.user()), how));
  }

  private static boolean take(LibcFunctions c, Credentials wanted) {
    List<Integer> groups = wanted.groups();
    NativeMemory list = NativeMemory.of(Math.max(1, groups.size()) * GROUP_BYTES);
    for (int i = 0; i < groups.size(); i++) {
      list.putInt(i * GROUP_BYTES, groups.get(i));
    }
    if (list.with(address -> c.syscall(SystemCalls.SETGROUPS, groups.size(), address, 0)) != 0) {
      return false;
    }
    // Neither of these two returns whether it succeeded; with an impossible id they return the
    // current id.
    c.syscall(SystemCalls.SETFSGID, id(wanted.group()), 0, 0);
    c.syscall(SystemCalls.SETFSUID, id(wanted.user()), 0, 0);
    return c.syscall(SystemCalls.SETFSGID, id(NO_ID), 0, 0) == wanted.group()
        && c.syscall(SystemCalls.SETFSUID, id(NO_ID), 0, 0) == wanted.user();
  }

  private static long id(int number) {
    return Integer.toUnsignedLong(number);
  }

  private static long result(long returned) {
    return returned < 0 ? -Libc.errno() : returned;
  }
}
