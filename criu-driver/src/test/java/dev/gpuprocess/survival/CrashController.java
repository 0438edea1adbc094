package dev.gpuprocess.survival;

import java.nio.file.Path;

/**
 * A controller in a JVM of its own, that is killed: it kills itself at the moment with the given
 * number, or its parent kills it at any time.
 */
final class CrashController {

  static final String BEGINS = "begins";

  private CrashController() {}

  /**
   * Runs until it is killed.
   *
   * @param args machine, state directory, directory for images, pid, number of the moment or -1
   */
  public static void main(String[] args) {
    FaultPoints moments = new FaultPoints().at(Integer.parseInt(args[4]), Signals::killSelf);
    CrashCycle cycle =
        new CrashCycle(
            SimulatedMachine.checkpoints(Path.of(args[0]), Path.of(args[1]), moments),
            Integer.parseInt(args[3]),
            Path.of(args[2]));
    System.out.println(BEGINS);
    for (int number = 1; ; number++) {
      cycle.run(number);
    }
  }
}
