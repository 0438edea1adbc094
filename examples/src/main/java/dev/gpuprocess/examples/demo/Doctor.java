package dev.gpuprocess.examples.demo;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Diagnosis;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.List;

/**
 * {@code Doctor [PID [DIRECTORY]]}: prints which requirements this machine meets, and with a pid
 * what prevents a suspend or a dump of that process.
 */
public final class Doctor {

  private Doctor() {}

  /**
   * Prints the findings and exits: with 0 if there are no problems, with 1 if there are, with 2 if
   * the arguments are invalid.
   *
   * @param args empty, or a pid, or a pid and the directory for an image
   */
  public static void main(String[] args) {
    System.exit(run(GpuCheckpoints.standard(), List.of(args), System.out));
  }

  /** Prints the findings and returns the exit code. */
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
