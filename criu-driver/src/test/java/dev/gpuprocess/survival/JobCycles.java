package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.criu.FileTree;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Dumps and restores a process tree under traffic repeatedly, and accounts for every message. */
final class JobCycles {

  private JobCycles() {}

  /**
   * The whole test, without Maven.
   *
   * @param args the number of cycles
   * @throws Exception when it cannot be done
   */
  public static void main(String[] args) throws Exception {
    int cycles = Integer.parseInt(args[0]);
    Path directory = Files.createTempDirectory("gpuprocess-job-cycles");
    List<String> faults;
    try {
      faults = run(directory, cycles);
    } finally {
      FileTree.remove(directory);
    }
    faults.forEach(System.out::println);
    System.out.println(figure(cycles, faults));
    System.exit(faults.isEmpty() ? 0 : 1);
  }

  static String figure(int cycles, List<String> faults) {
    return "job cycles: %d of %d".formatted(cycles - faults.size(), cycles);
  }

  /** Uses one process tree for all cycles; a cycle with a fault is the last. */
  static List<String> run(Path directory, int cycles) {
    try (SimulatedMachine machine = new SimulatedMachine(directory, JobSubject.GPUS);
        JobSubject job = JobSubject.start(machine.driver)) {
      GpuCheckpoints checkpoints = machine.checkpoints();
      List<String> faults = new ArrayList<>();
      for (int cycle = 1; cycle <= cycles; cycle++) {
        ProcessImage image = checkpoints.process(job.pid()).suspend().dump(machine.image());
        image.restore().resume();
        int number = cycle;
        job.fault().ifPresent(why -> faults.add("cycle " + number + ": " + why));
        if (!machine.journal().isEmpty()) {
          faults.add("cycle " + number + ": the journal has " + machine.journal());
        }
        if (!faults.isEmpty()) {
          // What was not done counts as not well done.
          for (int rest = cycle + 1; rest <= cycles; rest++) {
            faults.add("cycle " + rest + " was not begun");
          }
          return faults;
        }
        machine.removeImages();
      }
      return faults;
    }
  }
}
