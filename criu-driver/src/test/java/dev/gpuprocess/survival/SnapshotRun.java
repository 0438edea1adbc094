package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.report.RecoveryOutcome;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.function.Consumer;

/**
 * Snapshots of a process or a job from time to time, by a controller that is killed again and
 * again. After each kill it runs or is mended, and a good image is there; every other time it is
 * killed too, and comes back from the newest image.
 */
final class SnapshotRun implements AutoCloseable {

  /** An argument: the snapshots are of a tree, not of a single process. */
  private static final String JOB = "job";

  private static final Duration PATIENCE = Duration.ofMinutes(2);

  private static final int MEBIBYTES = 1;
  private static final int MOST_MADE_BEFORE_A_KILL = 3;

  /**
   * What came of it.
   *
   * @param lost what is not as it should be
   */
  record Result(boolean ofJob, int made, int restored, List<String> lost) {

    String figure() {
      return "snapshots%s: %d made, %d restored, %d lost"
          .formatted(ofJob ? " of a job" : "", made, restored, lost.size());
    }
  }

  private final SimulatedMachine machine;
  private final Random random;
  private final Duration interval;
  private final GpuCheckpoints checkpoints;
  private final ImageStore store;
  private final List<String> lost = new ArrayList<>();
  private final boolean isJob;
  private Snapshotted subject;
  private int made;
  private int restored;

  private SnapshotRun(Path directory, long seed, Duration interval, boolean isJob) {
    this.isJob = isJob;
    this.machine = new SimulatedMachine(directory);
    this.random = new Random(seed);
    this.interval = interval;
    this.checkpoints = machine.checkpoints();
    this.store = checkpoints.store(machine.images());
    this.subject = start();
  }

  private Snapshotted start() {
    return isJob
        ? new Snapshotted.OfJob(JobSubject.startPair(machine.driver, MEBIBYTES))
        : new Snapshotted.OfProcess(Subject.start(machine.driver));
  }

  /**
   * The whole test, without Maven.
   *
   * @param args process or job, seconds, and the seed
   * @throws Exception when it cannot be done
   */
  public static void main(String[] args) throws Exception {
    long seed = args.length > 2 ? Long.parseLong(args[2]) : System.nanoTime();
    Path directory = Files.createTempDirectory("gpuprocess-snapshot-test");
    Result result;
    try {
      Duration time = Duration.ofSeconds(Long.parseLong(args[1]));
      result = run(directory, time, Duration.ofSeconds(1), seed, args[0].equals(JOB));
    } finally {
      FileTree.remove(directory);
    }
    result.lost().forEach(System.out::println);
    System.out.println("seed " + seed);
    System.out.println(result.figure());
    System.exit(result.lost().isEmpty() ? 0 : 1);
  }

  /**
   * Goes on for about that time, and for two kills at least.
   *
   * @param isJob whether snapshots of a tree are made, or of a process
   */
  static Result run(Path directory, Duration time, Duration interval, long seed, boolean isJob)
      throws InterruptedException {
    long end = System.nanoTime() + time.toNanos();
    try (SnapshotRun run = new SnapshotRun(directory, seed, interval, isJob)) {
      for (int round = 0; round < 2 || System.nanoTime() < end; round++) {
        run.kill();
        run.recover();
        run.look(round);
        if (round % 2 == 1) {
          run.comeBack(round);
        }
      }
      return new Result(isJob, run.made, run.restored, List.copyOf(run.lost));
    }
  }

  /** A controller makes some images, and is killed at a random time. */
  private void kill() throws InterruptedException {
    try (SnapshotControllerProcess controller =
        SnapshotControllerProcess.start(List.of(), machine, subject.pid(), interval)) {
      int some = 1 + random.nextInt(MOST_MADE_BEFORE_A_KILL);
      for (int i = 0; i < some; i++) {
        Path image = controller.awaitMade();
        made++;
        if (Files.notExists(image) && newerThan(image) < SnapshotController.KEPT) {
          lost.add(image + " was made, and is not there");
        }
        check("while its snapshots are made");
        // Beside the controller, which does so too.
        store.prune(RetentionPolicy.builder().keepLast(SnapshotController.KEPT).build());
      }
      controller.kill(Duration.ofNanos((long) (random.nextDouble() * interval.toNanos() * 1.5)));
    }
  }

  /** Returns how many images are newer; after as many as are kept an image is removed. */
  private long newerThan(Path image) {
    return store.list().stream()
        .filter(each -> each.directory().getFileName().compareTo(image.getFileName()) > 0)
        .count();
  }

  private void check(String when) {
    subject.fault().ifPresent(fault -> lost.add(fault + ", " + when));
  }

  private void recover() {
    boolean settled =
        Waiting.until(
            PATIENCE,
            () -> {
              List<Recovered> found = checkpoints.recover();
              found.stream()
                  .flatMap(each -> Optional.ofNullable(each.suspended()).stream())
                  .distinct()
                  .forEach(SnapshotRun::resume);
              return found.stream().allMatch(each -> isSettled(each.outcome()));
            });
    if (!settled) {
      lost.add("the process cannot be recovered: " + checkpoints.recover());
    }
  }

  private static boolean isSettled(RecoveryOutcome outcome) {
    return outcome != RecoveryOutcome.IN_USE && outcome != RecoveryOutcome.UNREACHABLE;
  }

  private static void resume(CheckpointedProcess suspended) {
    suspended.resume();
  }

  private void look(int round) {
    check("after kill " + round);
    List<StoredImage> found = store.list();
    found.stream()
        .filter(each -> !each.isComplete())
        .forEach(each -> lost.add(each + " after kill " + round));
    if (found.size() > SnapshotController.KEPT + 1) {
      lost.add(found.size() + " images after kill " + round);
    }
    verifyNewest(round);
  }

  private void verifyNewest(int round) {
    Consumer<StoredImage> skipped = each -> lost.add("%s after kill %s".formatted(each, round));
    try {
      ProcessImage unused = store.newestThatVerifies(skipped);
    } catch (GpuCheckpointException e) {
      lost.add(e.getMessage());
    }
  }

  /** The process is killed, and restored from the newest image. */
  private void comeBack(int round) {
    subject.kill();
    Optional<String> taken = restore(round);
    if (taken.isPresent()) {
      // Another process got its pid, which is not a fault.
      subject.close();
      store.list().forEach(each -> FileTree.remove(each.directory()));
      subject = start();
    }
  }

  private Optional<String> restore(int round) {
    try {
      subject.restoreNewest(
          store, skipped -> lost.add("%s after kill %s".formatted(skipped, round)));
    } catch (PidTakenException e) {
      return Optional.of(e.getMessage());
    }
    restored++;
    subject.faultOfEarlier().ifPresent(fault -> lost.add(fault + ", back from the newest image"));
    return Optional.empty();
  }

  @Override
  public void close() {
    try {
      subject.close();
    } finally {
      machine.close();
    }
  }
}
