package dev.gpuprocess.examples.bus;

import java.io.IOException;
import java.io.PrintStream;
import java.util.List;
import java.util.Locale;

/**
 * The seconds in which processes were suspended and resumed at the same time, by a thread each.
 *
 * @param suspend until the last process was in host memory
 * @param resume until the last process ran again
 */
record Moves(double suspend, double resume) {

  /**
   * Suspends and resumes.
   *
   * @param ways a way for each process
   * @param name the name in the line that is printed
   * @param memory the ready memory; its refill is awaited before the resume
   */
  static Moves of(List<? extends Way> ways, String name, ReadyMemory memory, PrintStream out)
      throws IOException, InterruptedException {
    double suspend = Parallel.seconds(ways, Way::suspend);
    memory.settle();
    double resume = Parallel.seconds(ways, Way::resume);
    out.printf(
        Locale.ROOT,
        "  %s: suspend %.2f s, resume %.2f s; %s%s%n",
        name,
        suspend,
        resume,
        ways.size() == 1 ? "" : "the first: ",
        ways.get(0).steps());
    return new Moves(suspend, resume);
  }
}
