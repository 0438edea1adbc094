package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.internal.linux.SystemCalls;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Signals;
import java.nio.file.AccessDeniedException;
import java.util.Map;

/**
 * The code of CRIU that a process executes while it is dumped. If the tracer dies, the process
 * continues in that code and dies: of SIGTRAP at the breakpoint at its end, or of SIGPIPE when it
 * answers. While the code waits for CRIU's next command, the process is safe: the code notices that
 * CRIU is gone and returns to the program.
 */
public final class InjectedCode {

  /**
   * All signals but SIGKILL and SIGSTOP: CRIU's {@code parasite_run} blocks them before it changes
   * a register, and unblocks them when the registers are restored. What a program blocks with glibc
   * does not include signals 32 and 33.
   */
  private static final long ALL_SIGNALS =
      ~(Signals.set(Signals.SIGKILL) | Signals.set(Signals.SIGSTOP));

  /** The kernel unblocks SIGTRAP again when the breakpoint at the end of the code is reached. */
  private static final long TRAP = Signals.set(Signals.SIGTRAP);

  private InjectedCode() {}

  /**
   * Returns whether a task of a tree would be harmed by the death of its tracer.
   *
   * @param root the root of the tree
   * @throws dev.gpuprocess.internal.proc.ProcessUnreadableException if {@code /proc} cannot be read
   */
  public static boolean runsIn(int root) {
    return ProcFs.tree(root).stream()
        .flatMap(process -> ProcFs.threads(process).stream())
        .anyMatch(InjectedCode::isExecutedBy);
  }

  private static boolean isExecutedBy(int task) {
    Map<String, String> status = ProcFs.status(task);
    return !status.getOrDefault("TracerPid", "0").equals("0")
        && (Signals.set(status, "SigBlk") | TRAP) == ALL_SIGNALS
        && !waitsForCommand(task, status);
  }

  private static boolean waitsForCommand(int task, Map<String, String> status) {
    return status.getOrDefault("State", "").startsWith("S") && isInRecvfrom(task);
  }

  /** Returns true for a sleeping task if this user may not read its system call. */
  private static boolean isInRecvfrom(int task) {
    try {
      return ProcFs.read(task, "syscall")
          .filter(call -> call.startsWith(SystemCalls.RECVFROM + " "))
          .isPresent();
    } catch (ProcessUnreadableException e) {
      if (e.getCause() instanceof AccessDeniedException) {
        return true;
      }
      throw e;
    }
  }
}
