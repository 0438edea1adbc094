package dev.gpuprocess.examples.bus;

import java.io.IOException;
import java.io.PrintStream;
import java.util.List;
import java.util.Locale;

/**
 * How long processes took off the GPU and back, moved at the same time by a thread each, in
 * seconds.
 *
 * @param suspend until the last one was in host memory
 * @param resume until the last one ran again
 */
record Moves(double suspend, double resume) {

  /**
   * Suspends and resumes.
   *
   * @param ways one for each process
   * @param who for the line that is printed
   * @param memory what is made in the background is awaited between the two
   */
  static Moves of(List<? extends Way> ways, String who, ReadyMemory memory, PrintStream out)
      throws IOException, InterruptedException {
    double suspend = Parallel.seconds(ways, Way::suspend);
    memory.settle();
    double resume = Parallel.seconds(ways, Way::resume);
    out.printf(
        Locale.ROOT,
        "  %s: suspend %.2f s, resume %.2f s; %s%s%n",
        who,
        suspend,
        resume,
        ways.size() == 1 ? "" : "the first: ",
        ways.get(0).steps());
    return new Moves(suspend, resume);
  }
}
