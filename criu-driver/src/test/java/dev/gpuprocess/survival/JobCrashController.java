package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.criu.FileTree;
import java.nio.file.Path;

/** A controller in a JVM of its own that uses every verb on a process tree until it is killed. */
final class JobCrashController {

  static final String BEGINS = "begins";

  private JobCrashController() {}

  /**
   * Runs until it is killed.
   *
   * @param args machine, state directory, directory for images, pid of the root
   */
  public static void main(String[] args) {
    GpuCheckpoints checkpoints =
        SimulatedMachine.checkpoints(Path.of(args[0]), Path.of(args[1]), new FaultPoints());
    Path images = Path.of(args[2]);
    int pid = Integer.parseInt(args[3]);
    System.out.println(BEGINS);
    for (int number = 1; ; number++) {
      checkpoints.process(pid).lock().unlock();
      checkpoints.process(pid).suspend().resume();
      ProcessImage image =
          checkpoints.process(pid).suspend().dump(images.resolve("dump-" + number));
      image.restore().resume();
      FileTree.remove(image.directory());
      ProcessImage backup = checkpoints.process(pid).snapshot(images.resolve("backup-" + number));
      FileTree.remove(backup.directory());
    }
  }
}
