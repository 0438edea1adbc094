package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.util.Map;
import java.util.Optional;

/** Checks whether a process and its threads can be traced, before a thread is stopped. */
final class Suitability {

  private static final int ELF_CLASS = 4;
  private static final int CLASS_32 = 1;
  private static final String STRICT = "1";
  private static final String NONE = "0";

  private Suitability() {}

  static boolean isMachineKnown() {
    return System.getProperty("os.arch").equals("amd64");
  }

  /** Checks a process. */
  static void check(ProcessIdentity process) throws UntraceableException {
    if (!isMachineKnown()) {
      throw no(Reason.MACHINE, "system calls in other processes are made on x86_64 only");
    }
    if (process.pid() == ProcessHandle.current().pid()) {
      throw no(Reason.OURSELVES, "a process cannot trace itself");
    }
    Optional<ProcStat> stat = Processes.stat(process).filter(found -> !found.isDead());
    if (stat.isEmpty()) {
      throw gone(process);
    }
    if (stat.get().state() == 'T') {
      throw stopped(process);
    }
    if (isFor32Bits(process)) {
      throw no(Reason.BITS_32, "process %s is a 32-bit program".formatted(process.pid()));
    }
  }

  /** True also for x32. If the file cannot be read, the registers of a thread show it later. */
  private static boolean isFor32Bits(ProcessIdentity process) {
    try (InputStream in = Files.newInputStream(ProcFs.file(process.pid(), "exe"))) {
      byte[] head = in.readNBytes(ELF_CLASS + 1);
      return head.length > ELF_CLASS && head[ELF_CLASS] == CLASS_32;
    } catch (IOException unreadable) {
      return false;
    }
  }

  /**
   * Checks a thread that was seized, so that its id cannot be reused.
   *
   * @return whether the thread has seccomp filters
   */
  static boolean check(ProcessIdentity process, int task) throws UntraceableException {
    Map<String, String> status = ProcFs.status(task);
    if (!status.getOrDefault("Tgid", "").equals(Integer.toString(process.pid()))
        || Processes.stat(process).isEmpty()) {
      throw gone(process);
    }
    if (status.getOrDefault("x86_Thread_features", "").contains("shstk")) {
      throw no(Reason.SHADOW_STACK, "thread %s has a shadow stack".formatted(task));
    }
    String seccomp = status.getOrDefault("Seccomp", NONE);
    if (seccomp.equals(STRICT)) {
      throw no(Reason.SECCOMP, "thread %s may only read, write and exit (seccomp)".formatted(task));
    }
    return !seccomp.equals(NONE);
  }

  /** Returns why a thread could not be seized. */
  static UntraceableException refused(ProcessIdentity process, int task, NativeCallException e)
      throws NativeCallException {
    if (e.isGone()) {
      return gone(process);
    }
    if (!e.isNotPermitted()) {
      throw e;
    }
    // Checked first: the status file of a dead first thread shows a living thread.
    if (ProcFs.task(process.pid(), task).filter(thread -> !thread.isDead()).isEmpty()) {
      return gone(process);
    }
    Map<String, String> status = ProcFs.status(task);
    String tracer = status.getOrDefault("TracerPid", NONE);
    if (!tracer.equals(NONE)) {
      return no(
          Reason.TRACED,
          "thread %s of process %s is traced by process %s: detach the debugger"
              .formatted(
                  task,
                  process.pid(),
                  ProcFs.status(Long.parseLong(tracer)).getOrDefault("Tgid", tracer)));
    }
    return notPermitted(process);
  }

  static UntraceableException stopped(ProcessIdentity process) {
    return no(
        Reason.STOPPED,
        "process %s is stopped by a signal: kill -CONT %s".formatted(process.pid(), process.pid()));
  }

  static UntraceableException noThread(ProcessIdentity process) {
    return no(
        Reason.NO_THREAD,
        "process %s has no thread that can be borrowed: all of them wait uninterruptibly, or belong to the CUDA driver, or the process has only one thread and the JDK waits for its exit"
            .formatted(process.pid()));
  }

  static UntraceableException notPermitted(ProcessIdentity process) {
    return no(
        Reason.NOT_PERMITTED,
        "process %s may not be traced: run as root, or give this JVM CAP_SYS_PTRACE (/proc/sys/kernel/yama/ptrace_scope may forbid it too)"
            .formatted(process.pid()));
  }

  /** For errors that occur only if a thread does something unusual with its memory. */
  static UntraceableException unfit(int task, NativeCallException e) {
    UntraceableException unfit =
        no(Reason.NO_THREAD, "thread %s cannot be borrowed: %s".formatted(task, e.getMessage()));
    unfit.initCause(e);
    return unfit;
  }

  static UntraceableException gone(ProcessIdentity process) {
    return no(Reason.GONE, "process %s has ended".formatted(process.pid()));
  }

  private static UntraceableException no(Reason reason, String sentence) {
    return new UntraceableException(reason, sentence);
  }
}
