package dev.gpuprocess.survival;

import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.internal.image.AbandonedImage;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * Two controllers in JVMs of their own, with the library twice in each, run random verbs on the
 * same processes, with random faults: in the driver, in CRIU, and a lack of descriptors. The
 * processes change their memory all the time. Readers inspect all processes, including a quiet one
 * on which no verb works and which must run when its controller leaves it. More processes than a
 * GPU can hold are suspended and resumed. Between the rounds all stop, and everything is checked.
 */
final class Soak implements AutoCloseable {

  private static final int CONTROLLERS = 2;
  private static final int PROCESSES = 5;
  private static final long ROUND_MILLIS = 3000;
  private static final Duration PATIENCE = Duration.ofMinutes(2);

  /**
   * What came of it.
   *
   * @param controllers which there were
   * @param violations what was not as it should be
   */
  record Result(
      long seconds,
      List<String> controllers,
      int rounds,
      int verbs,
      int refused,
      int troubles,
      int images,
      int cameBack,
      int replaced,
      List<Violation> violations) {

    String figure() {
      return "soak: %d s, %d rounds, %d verbs done and %d refused or failed, %d images, %d troubles, %d processes came back from an image and %d had none yet when they were killed; %d lost, %d left behind, %d wrong, %d leaked"
          .formatted(
              seconds,
              rounds,
              verbs,
              refused,
              images,
              troubles,
              cameBack,
              replaced,
              count(Violation.Kind.LOST),
              count(Violation.Kind.LEFT_BEHIND),
              count(Violation.Kind.WRONG),
              count(Violation.Kind.LEAKED));
    }

    private long count(Violation.Kind kind) {
      return violations.stream().filter(violation -> violation.kind() == kind).count();
    }
  }

  private final SimulatedMachine machine;
  private final Random random;
  private Leaks leaks = new Leaks();
  private final List<SoakRemote> controllers = new ArrayList<>();
  private final List<SoakSubject> subjects = new ArrayList<>();
  private final List<Subject> quiet = new ArrayList<>();
  private final SoakCrowd crowd;
  private final SquattedDirectories squat;
  private final FaultInjector chaos;
  private final SoakOracle judge;
  private int rounds;

  private Soak(Path directory, long seed) {
    machine = new SimulatedMachine(directory);
    random = new Random(seed);
    chaos = new FaultInjector(machine, new Random(random.nextLong()));
    judge = new SoakOracle(machine);
    crowd = new SoakCrowd(machine.place("crowd"));
    squat = SquattedDirectories.in(machine.place("squat"));
    SoakPlace place =
        new SoakPlace(
            machine.driver.directory(),
            machine.state(),
            machine.images(),
            crowd.machine(),
            crowd.state(),
            SimulatedMachine.make(machine.place("marks")),
            squat.directory());
    for (int i = 0; i < CONTROLLERS; i++) {
      controllers.add(
          new SoakRemote(
              place, machine.temporary(), "controller" + i, new Random(random.nextLong())));
      quiet.add(Subject.start(machine.driver));
    }
    Stream.generate(() -> SoakSubject.start(machine.driver, machine.state()))
        .limit(PROCESSES)
        .forEach(subjects::add);
  }

  /** The first round, which loads and opens everything that stays open. */
  private void warmUp() {
    round();
    Leaks.open(machine.checkpoints());
    leaks = new Leaks();
  }

  /**
   * The soak, without Maven.
   *
   * @param args how many seconds, and the seed
   * @throws Exception when it cannot be done
   */
  public static void main(String[] args) throws Exception {
    long seed = args.length > 1 ? Long.parseLong(args[1]) : System.nanoTime();
    System.out.println("seed " + seed);
    Path directory = Files.createTempDirectory("gpuprocess-soak");
    Result result;
    try {
      result = run(directory, Duration.ofSeconds(Long.parseLong(args[0])), seed);
    } finally {
      FileTree.remove(directory);
    }
    result.controllers().forEach(System.out::println);
    result.violations().forEach(System.out::println);
    System.out.println(result.figure());
    System.exit(result.violations().isEmpty() ? 0 : 1);
  }

  /** Runs for a while, at least one round. */
  static Result run(Path directory, Duration time, long seed) {
    long began = System.nanoTime();
    try (Soak soak = new Soak(directory, seed)) {
      try {
        soak.warmUp();
        while (System.nanoTime() - began < time.toNanos()) {
          soak.round();
        }
        return soak.result(Duration.ofNanos(System.nanoTime() - began).toSeconds());
      } catch (IllegalStateException e) {
        throw new IllegalStateException(
            "the soak broke off; before: " + soak.judge.violations(), e);
      }
    }
  }

  private void round() {
    rounds++;
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ROUND_MILLIS);
    subjects.forEach(SoakSubject::roundBegins);
    List<Integer> pids = subjects.stream().map(SoakSubject::pid).toList();
    for (int i = 0; i < CONTROLLERS; i++) {
      controllers
          .get(i)
          .work(
              new SoakOrder(
                  random.nextLong(), ROUND_MILLIS, pids, quiet.get(i).pid(), crowd.pids()));
    }
    CompletableFuture<Void> injected = CompletableFuture.runAsync(() -> chaos.rage(subjects, end));
    while (System.nanoTime() < end) {
      subjects.forEach(
          subject ->
              subject
                  .ask()
                  .ifPresent(why -> judge.addViolation(new Violation(Violation.Kind.LOST, why))));
    }
    injected.join();
    controllers.forEach(controller -> controller.await().forEach(judge::addViolation));
    judge.judge(subjects);
    judge.judgeQuiet(quiet);
    crowd.judge(judge::addViolation);
    if (squat.hasHarmed()) {
      judge.addViolation(new Violation(Violation.Kind.WRONG, "a squatter had a file overwritten"));
    }
  }

  private Result result(long seconds) {
    for (SoakRemote controller : controllers) {
      controller.countLeaks();
      controller.await().forEach(judge::addViolation);
    }
    // What they could not remove for want of descriptors is found when they are dead.
    controllers.forEach(SoakRemote::close);
    boolean criuEnds = Waiting.until(PATIENCE, () -> machine.criu().isEmpty());
    AbandonedImage.in(machine.images()).forEach(AbandonedImage::remove);
    List<String> leaked = new ArrayList<>(leaks.left(machine.temporary()));
    SimulatedMachine.names(machine.images()).stream()
        .filter(name -> name.endsWith(".partial"))
        .forEach(name -> leaked.add("half image " + name));
    if (!criuEnds) {
      leaked.add("CRIU " + machine.criu());
    }
    SimulatedMachine.names(machine.place("marks"))
        .forEach(call -> leaked.add("driver call on " + call));
    leaked.forEach(leak -> judge.addViolation(new Violation(Violation.Kind.LEAKED, leak)));
    return new Result(
        seconds,
        controllers.stream().map(SoakRemote::toString).toList(),
        rounds,
        controllers.stream().mapToInt(SoakRemote::done).sum(),
        controllers.stream().mapToInt(SoakRemote::refused).sum(),
        chaos.made(),
        judge.images(),
        judge.cameBack(),
        judge.replaced(),
        // All of them look into the same temporary directory.
        judge.violations().stream().distinct().toList());
  }

  @Override
  public void close() {
    controllers.forEach(SoakRemote::close);
    subjects.forEach(SoakSubject::close);
    quiet.forEach(Subject::close);
    crowd.close();
    machine.close();
  }
}
