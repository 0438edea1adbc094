package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.DyingJvm;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.report.RecoveryOutcome;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Stream;

/** Kills the controller of a process tree at random moments, and checks the recovery. */
final class JobCrash {

  private static final Duration PATIENCE = Duration.ofMinutes(2);
  private static final long LONGEST_NANOS = 2_000_000_000L;

  private final SimulatedMachine machine;
  private final GpuCheckpoints checkpoints;

  private JobCrash(SimulatedMachine machine) {
    this.machine = machine;
    this.checkpoints = machine.checkpoints();
  }

  /**
   * The whole test, without Maven.
   *
   * @param args the number of kills, and the seed
   * @throws Exception when it cannot be done
   */
  public static void main(String[] args) throws Exception {
    int kills = Integer.parseInt(args[0]);
    long seed = args.length > 1 ? Long.parseLong(args[1]) : System.nanoTime();
    Path directory = Files.createTempDirectory("gpuprocess-job-crash");
    List<String> faults;
    try {
      faults = run(directory, kills, seed);
    } finally {
      FileTree.remove(directory);
    }
    faults.forEach(System.out::println);
    System.out.println("seed " + seed);
    System.out.println(figure(kills, faults));
    System.exit(faults.isEmpty() ? 0 : 1);
  }

  static String figure(int kills, List<String> faults) {
    return "job crash: %d kills, %d lost".formatted(kills, faults.size());
  }

  /** Uses one process for all kills, as long as it is not lost. */
  static List<String> run(Path directory, int kills, long seed) {
    Random random = new Random(seed);
    List<String> faults = new ArrayList<>();
    try (SimulatedMachine machine = new SimulatedMachine(directory, JobSubject.GPUS)) {
      int done = 0;
      while (done < kills) {
        try (JobSubject job = JobSubject.start(machine.driver)) {
          boolean isWell = true;
          while (isWell && done < kills) {
            done++;
            int number = done;
            long nanos = (long) (random.nextDouble() * LONGEST_NANOS);
            Optional<String> fault = new JobCrash(machine).killed(job, nanos);
            fault.ifPresent(
                why ->
                    faults.add(
                        "kill %d after %d ms: %s".formatted(number, nanos / 1_000_000, why)));
            isWell = fault.isEmpty();
          }
        }
      }
    }
    return faults;
  }

  private Optional<String> killed(JobSubject job, long nanos) {
    try {
      if (!isKilled(job, nanos)) {
        return Optional.of("its controller had exited");
      }
      if (!Waiting.until(PATIENCE, this::isRecovered)) {
        return Optional.of("recovery does not come to an end");
      }
      if (!job.isAlive()) {
        Optional<ProcessImage> image = newestImage();
        if (image.isEmpty()) {
          return Optional.of("it is gone without an image");
        }
        Workload.await(() -> isBack(image.get()), "its pids to be free");
      } else if (!(checkpoints.inspect(job.pid()) instanceof RunningProcess)) {
        return Optional.of("recovery left it " + checkpoints.inspect(job.pid()));
      }
      return job.fault().or(this::untidy);
    } finally {
      machine.removeImages();
    }
  }

  private boolean isKilled(JobSubject job, long nanos) {
    Process controller =
        ChildJvm.start(
            JobCrashController.class,
            machine.temporary(),
            Map.of(Crash.MARK, machine.state().toString()),
            List.of(
                machine.driver.directory().toString(),
                machine.state().toString(),
                machine.images().toString(),
                Integer.toString(job.pid())));
    return DyingJvm.awaitEnd(controller, JobCrashController.BEGINS, nanos);
  }

  /** Recovers once, and resumes the process; returns whether nothing was left to do. */
  private boolean isRecovered() {
    List<Recovered> found = checkpoints.recover();
    found.stream()
        .map(Recovered::suspended)
        .filter(Objects::nonNull)
        .distinct()
        .forEach(JobCrash::resume);
    return found.stream()
        .map(Recovered::outcome)
        .noneMatch(
            outcome ->
                outcome == RecoveryOutcome.IN_USE
                    || outcome == RecoveryOutcome.UNREACHABLE
                    || outcome == RecoveryOutcome.SUSPENDED);
  }

  private static void resume(CheckpointedProcess parked) {
    try {
      parked.resume();
    } catch (NoSuchProcessException e) {
      // The CRIU of the dead controller had its leave to end the job; then there is an image.
      return;
    }
  }

  private static boolean isBack(ProcessImage image) {
    try {
      RunningProcess unused = image.restore().resume();
      return true;
    } catch (PidTakenException busy) {
      return false;
    }
  }

  private Optional<ProcessImage> newestImage() {
    return SimulatedMachine.names(machine.images()).stream()
        .flatMap(name -> whole(machine.images().resolve(name)))
        .max(Comparator.comparing(image -> image.manifest().created()));
  }

  private Stream<ProcessImage> whole(Path directory) {
    try {
      ProcessImage image = checkpoints.open(directory);
      image.verify();
      return Stream.of(image);
    } catch (ImageException e) {
      return Stream.of();
    }
  }

  private Optional<String> untidy() {
    if (!Waiting.until(PATIENCE, () -> machine.criu().isEmpty())) {
      return Optional.of("CRIU runs: " + machine.criu());
    }
    List<String> left = new ArrayList<>(machine.journal());
    SimulatedMachine.names(machine.images()).stream()
        .filter(name -> name.endsWith(".partial"))
        .forEach(left::add);
    return left.isEmpty() ? Optional.empty() : Optional.of("left over: " + left);
  }
}
