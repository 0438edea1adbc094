package dev.gpuprocess.examples.demo;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.doctor.Diagnosis;
import dev.gpuprocess.options.DumpOptions;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.List;

/**
 * Prints what works on this machine and what does not: {@code Doctor [PID [DIRECTORY]]}. With a pid
 * it prints what would stop a suspend or a dump of that process.
 */
public final class Doctor {

  private Doctor() {}

  /**
   * Prints the findings and ends the JVM: 0 when nothing is a problem, 1 when something is, 2 when
   * the arguments are not understood.
   *
   * @param args nothing, or a pid, or a pid and where an image would be made
   */
  public static void main(String[] args) {
    System.exit(run(GpuCheckpoints.standard(), List.of(args), System.out));
  }

  /** Prints; gives the exit code. */
  static int run(GpuCheckpoints checkpoints, List<String> args, PrintStream out) {
    if (args.size() > 2 || (!args.isEmpty() && !args.get(0).matches("\\d{1,10}"))) {
      System.err.println("usage: Doctor [PID [DIRECTORY]]");
      return 2;
    }
    Diagnosis diagnosis = diagnose(checkpoints, args);
    out.print(diagnosis);
    int problems = diagnosis.problems().size();
    out.println(problems == 0 ? "no problems" : "problems: " + problems);
    return problems == 0 ? 0 : 1;
  }

  private static Diagnosis diagnose(GpuCheckpoints checkpoints, List<String> args) {
    if (args.isEmpty()) {
      return checkpoints.doctor();
    }
    long pid = Long.parseLong(args.get(0));
    return args.size() == 1
        ? checkpoints.doctor(pid)
        : checkpoints.doctor(pid, Path.of(args.get(1)).resolve("image"), DumpOptions.ofDefaults());
  }
}
