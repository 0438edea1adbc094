package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.text.Printable;
import java.util.Optional;

/** Descriptions of processes for messages. */
public final class ProcessDescriptions {

  private static final int LONGEST_COMMAND = 80;

  private ProcessDescriptions() {}

  /** Returns a text such as {@code process 12 (sleep 1000)}. */
  public static String process(long pid) {
    return "process " + pid + command(pid);
  }

  /** Returns the holder of a pid; empty if it is free. */
  public static Optional<String> holder(int pid) {
    return ProcFs.stat(pid)
        .map(
            stat -> {
              int leader = threadGroup(pid);
              if (leader != pid) {
                return "a thread of " + process(leader);
              }
              return stat.isDead() ? zombie(stat) : process(pid);
            });
  }

  /**
   * Finds a process, even a zombie, whose session or group has this number, which is taken until
   * then. Searches all processes.
   */
  public static Optional<String> member(int number) {
    return ProcessHandle.allProcesses()
        .flatMap(process -> ProcFs.stat(process.pid()).stream())
        .filter(stat -> stat.session() == number || stat.group() == number)
        .findAny()
        .map(stat -> stat.isDead() ? zombie(stat) : process(stat.pid()));
  }

  /** Returns a text such as {@code a zombie (sleep) that its parent 7 (bash) has not reaped}. */
  public static String zombie(ProcStat stat) {
    return "a zombie ("
        + stat.name()
        + ") that its parent "
        + stat.parent()
        + command(stat.parent())
        + " has not reaped";
  }

  private static String command(long pid) {
    String words = String.join(" ", ProcFs.commandLine(pid)).replaceAll("\\s+", " ").strip();
    String text = words.isEmpty() ? ProcFs.stat(pid).map(ProcStat::name).orElse("") : words;
    if (text.isEmpty()) {
      return "";
    }
    return " (" + Printable.of(text, LONGEST_COMMAND) + ")";
  }

  private static int threadGroup(int pid) {
    return Integer.parseInt(ProcFs.status(pid).getOrDefault("Tgid", Integer.toString(pid)));
  }
}
