package dev.gpuprocess.internal.handover;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.os.Kcmp;
import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.proc.ProcFs;

/**
 * Looks for writers of a process's memory besides its threads: another process with the same memory
 * ({@code CLONE_VM}), and the kernel, by asynchronous I/O. Memory that the driver mapped is safe
 * from both, since the program does not know its address. Memory in a file of an earlier image may
 * be the program's own.
 */
final class OtherWriters {

  private static final String AIO = "/[aio]";
  private static final String IO_URING = "anon_inode:[io_uring]";

  private OtherWriters() {}

  /**
   * Checks that there is none.
   *
   * @throws NotHeldException when there is one, or that cannot be found out
   */
  static void requireNone(int pid) throws NotHeldException {
    try {
      lookForSharers(pid);
      lookForAsynchronousIo(pid);
    } catch (ProcessUnreadableException e) {
      throw new NotHeldException(String.valueOf(e.getMessage()), e);
    }
  }

  private static void lookForSharers(int pid) throws NotHeldException {
    for (int other : ProcFs.processes()) {
      if (other != pid && sharesMemory(pid, other)) {
        throw new NotHeldException(
            "process %s has the same memory as process %s, which would run on"
                .formatted(pid, other),
            null);
      }
    }
  }

  private static void lookForAsynchronousIo(int pid) throws NotHeldException {
    if (ProcFs.memory(pid).stream().anyMatch(mapping -> isRing(mapping.name()))
        || ProcFs.openFiles(pid).stream().anyMatch(file -> isRing(file.target()))) {
      throw new NotHeldException(
          "process %s uses asynchronous I/O, by which the kernel may write its memory at any moment"
              .formatted(pid),
          null);
    }
  }

  private static boolean sharesMemory(int pid, int other) throws NotHeldException {
    try {
      return Kcmp.sharesMemory(pid, other);
    } catch (NativeCallException e) {
      // A process that we may not trace has another user, and one with the same memory begins with
      // the same user.
      if (e.isGone() || e.isNotPermitted()) {
        return false;
      }
      throw new NotHeldException(String.valueOf(e.getMessage()), e);
    }
  }

  private static boolean isRing(String name) {
    return name.startsWith(AIO) || name.equals(IO_URING);
  }
}
