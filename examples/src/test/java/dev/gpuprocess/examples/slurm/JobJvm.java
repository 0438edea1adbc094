package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.GpuCheckpoints;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A run of a job in a JVM of its own, which can have another umask or other properties. */
final class JobJvm {

  private static final Duration GRACE = Duration.ofSeconds(60);

  private JobJvm() {}

  /**
   * Opens the directory of the job ({@code open IMAGES}), or runs the job ({@code run IMAGES DRIVER
   * STATE SCONTROL}).
   */
  public static void main(String[] arguments) throws InterruptedException {
    SlurmJob job = new SlurmJob("17", "lab-17", 0, "node1", "low", List.of(), List.of());
    Path images = Path.of(arguments[1]);
    if (arguments[0].equals("open")) {
      System.out.println(JobDirectory.open(images, job, new ArrayList<>()).output());
      return;
    }
    GpuCheckpoints machine =
        GpuCheckpoints.builder()
            .cuda(Path.of(arguments[2]))
            .stateDirectory(Path.of(arguments[3]))
            .build();
    JobRun.Settings settings =
        new JobRun.Settings(images, null, GRACE, 2, false, false, List.of("sleep", "1000"));
    JobRun run =
        new JobRun(
            machine,
            job,
            new Scontrol(arguments[4]),
            settings,
            JobEvents.ofThisProcess(),
            System.out::println);
    System.exit(run.run());
  }
}
