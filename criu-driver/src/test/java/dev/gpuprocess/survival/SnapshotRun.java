package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.RecoveryOutcome;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;

/**
 * Snapshots of a process from time to time, by a controller that is killed again and again. After
 * each kill the process runs or is mended, and a good image is there; every other time the process
 * is killed too, and comes back from the newest image.
 */
final class SnapshotRun implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofMinutes(2);
  private static final int MEBIBYTES = 1;
  private static final String RIGHT = "ok %d bytes".formatted(MEBIBYTES << 20);
  private static final int MOST_MADE_BEFORE_A_KILL = 3;

  /**
   * What came of it.
   *
   * @param lost what is not as it should be
   */
  record Result(int made, int restored, List<String> lost) {

    String figure() {
      return "snapshots: %d made, %d restored, %d lost".formatted(made, restored, lost.size());
    }
  }

  private final SimulatedMachine machine;
  private final Random random;
  private final Duration interval;
  private final GpuCheckpoints checkpoints;
  private final ImageStore store;
  private final List<String> lost = new ArrayList<>();
  private Counter job;
  private int number;
  private int made;
  private int restored;

  private SnapshotRun(Path directory, long seed, Duration interval) {
    this.machine = new SimulatedMachine(directory);
    this.random = new Random(seed);
    this.interval = interval;
    this.checkpoints = machine.checkpoints();
    this.store = checkpoints.store(machine.images());
    this.job = start();
  }

  private Counter start() {
    Counter started = Counter.launch(MEBIBYTES).on(machine.driver).notOurChild().start();
    number = started.increment();
    return started;
  }

  /**
   * The whole test, without Maven.
   *
   * @param args seconds and the seed
   * @throws Exception when it cannot be done
   */
  public static void main(String[] args) throws Exception {
    long seed = args.length > 1 ? Long.parseLong(args[1]) : System.nanoTime();
    Path directory = Files.createTempDirectory("gpuprocess-snapshot-test");
    Result result;
    try {
      Duration time = Duration.ofSeconds(Long.parseLong(args[0]));
      result = run(directory, time, Duration.ofSeconds(1), seed);
    } finally {
      FileTree.remove(directory);
    }
    result.lost().forEach(System.out::println);
    System.out.println("seed " + seed);
    System.out.println(result.figure());
    System.exit(result.lost().isEmpty() ? 0 : 1);
  }

  /** Goes on for about that time, and for two kills at least. */
  static Result run(Path directory, Duration time, Duration interval, long seed)
      throws InterruptedException {
    long end = System.nanoTime() + time.toNanos();
    try (SnapshotRun run = new SnapshotRun(directory, seed, interval)) {
      for (int round = 0; round < 2 || System.nanoTime() < end; round++) {
        run.kill();
        run.recover();
        run.look(round);
        if (round % 2 == 1) {
          run.comeBack(round);
        }
      }
      return new Result(run.made, run.restored, List.copyOf(run.lost));
    }
  }

  /** A controller makes some images, and is killed in the middle of anything. */
  private void kill() throws InterruptedException {
    try (SnapshotControllerProcess controller =
        SnapshotControllerProcess.start(List.of(), machine, job.pid(), interval)) {
      int some = 1 + random.nextInt(MOST_MADE_BEFORE_A_KILL);
      for (int i = 0; i < some; i++) {
        Path image = controller.awaitMade();
        made++;
        if (Files.notExists(image)) {
          lost.add(image + " was made, and is not there");
        }
        number++;
        check("while its snapshots are made");
        // Beside the controller, which does so too.
        store.prune(RetentionPolicy.builder().keepLast(SnapshotController.KEPT).build());
      }
      controller.kill(Duration.ofNanos((long) (random.nextDouble() * interval.toNanos() * 1.5)));
    }
  }

  private void check(String when) {
    int next = job.increment();
    String pattern = job.verify();
    if (next != number || !pattern.equals(RIGHT)) {
      lost.add("the process counts %d, not %d, with %s, %s".formatted(next, number, pattern, when));
      number = next;
    }
  }

  private void recover() {
    boolean settled =
        Waiting.until(
            PATIENCE,
            () -> {
              List<Recovered> found = checkpoints.recover();
              found.stream()
                  .flatMap(each -> Optional.ofNullable(each.suspended()).stream())
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
    number++;
    check("after kill " + round);
    List<StoredImage> found = store.list();
    found.stream()
        .filter(each -> !each.isComplete())
        .forEach(each -> lost.add(each + " after kill " + round));
    if (found.size() > SnapshotController.KEPT + 1) {
      lost.add(found.size() + " images after kill " + round);
    }
    try {
      store.newestThatVerifies(skipped -> lost.add("%s after kill %s".formatted(skipped, round)));
    } catch (GpuCheckpointException e) {
      lost.add(e.getMessage());
    }
  }

  /** The process dies, and comes back from the newest image. */
  private void comeBack(int round) {
    ProcessIdentity process = ProcessIdentity.of(job.pid()).orElseThrow();
    Signals.send(process, Signals.KILL);
    if (!Waiting.until(PATIENCE, () -> Files.notExists(Path.of("/proc/" + job.pid())))) {
      throw new IllegalStateException(process + " does not end");
    }
    Optional<String> taken = restore(round);
    if (taken.isPresent()) {
      // A stranger got its pid: that is nobody's fault.
      job.close();
      store.list().forEach(each -> FileTree.remove(each.directory()));
      job = start();
    }
  }

  private Optional<String> restore(int round) {
    try {
      store
          .restoreNewest(
              RestoreOptions.ofDefaults(),
              skipped -> lost.add("%s after kill %s".formatted(skipped, round)))
          .resume();
    } catch (PidTakenException e) {
      return Optional.of(e.getMessage());
    }
    restored++;
    int before = number;
    number = job.increment();
    if (number > before + 1 || number <= 101 || !job.verify().equals(RIGHT)) {
      lost.add(
          "the process counted %d, and %d after it came back from the newest image"
              .formatted(before, number));
    }
    return Optional.empty();
  }

  @Override
  public void close() {
    try {
      job.close();
    } finally {
      machine.close();
    }
  }
}
