package dev.gpuprocess.criu;

import dev.gpuprocess.GpuCheckpoints;
import java.lang.management.ClassLoadingMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;

/** A JVM that prepares itself, and then suspends and dumps a process for the first time. */
final class FirstVerbs {

  private FirstVerbs() {}

  /**
   * Prints how many classes were loaded by the preparation, and by the verbs.
   *
   * @param args the machine, the state directory, the pid, and the image
   */
  public static void main(String[] args) {
    ClassLoadingMXBean classes = ManagementFactory.getClassLoadingMXBean();
    GpuCheckpoints checkpoints =
        GpuCheckpoints.builder().cuda(Path.of(args[0])).stateDirectory(Path.of(args[1])).build();
    long before = classes.getTotalLoadedClassCount();
    checkpoints.prepare();
    long prepared = classes.getTotalLoadedClassCount();
    checkpoints.process(Long.parseLong(args[2])).suspend().dump(Path.of(args[3]));
    long done = classes.getTotalLoadedClassCount();
    System.out.println((prepared - before) + " " + (done - prepared));
    System.exit(0);
  }
}
