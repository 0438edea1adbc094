package dev.gpuprocess.survival;

import dev.gpuprocess.criu.FileTree;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Two controllers in JVMs of their own do verbs at random on the same processes, while things go
 * wrong at random. In between they rest, and everything is looked at.
 */
final class Soak implements AutoCloseable {

  private static final int CONTROLLERS = 2;
  private static final int PROCESSES = 4;
  private static final long ROUND_MILLIS = 3000;

  /**
   * What came of it.
   *
   * @param complaints what was not as it should be, lost processes included
   * @param leaked what was left at the end
   */
  record Result(
      long seconds,
      int rounds,
      int verbs,
      int refused,
      int troubles,
      int images,
      int cameBack,
      int replaced,
      int lost,
      List<String> complaints,
      List<String> leaked) {

    boolean isGood() {
      return lost == 0 && complaints.isEmpty() && leaked.isEmpty();
    }

    String figure() {
      return "soak: %d s, %d rounds, %d verbs done and %d refused or failed, %d images, %d troubles, %d processes came back from an image and %d had none yet when they were killed; %d lost, %d wrong, %d leaked"
          .formatted(
              seconds,
              rounds,
              verbs,
              refused,
              images,
              troubles,
              cameBack,
              replaced,
              lost,
              complaints.size(),
              leaked.size());
    }
  }

  private final Lane lane;
  private final Random random;
  private final Leaks leaks;
  private final List<SoakRemote> controllers;
  private final List<SoakSubject> subjects = new ArrayList<>();
  private final Chaos chaos;
  private final SoakJudge judge;
  private int rounds;

  private Soak(Path directory, long seed) {
    lane = new Lane(directory);
    random = new Random(seed);
    chaos = new Chaos(lane, new Random(random.nextLong()));
    judge = new SoakJudge(lane);
    controllers =
        IntStream.range(0, CONTROLLERS)
            .mapToObj(number -> new SoakRemote(lane, "controller" + number))
            .toList();
    Stream.generate(() -> SoakSubject.start(lane.machine)).limit(PROCESSES).forEach(subjects::add);
    round();
    Leaks.open(lane.checkpoints());
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
    result.complaints().forEach(System.out::println);
    result.leaked().forEach(leak -> System.out.println("leaked: " + leak));
    System.out.println(result.figure());
    System.exit(result.isGood() ? 0 : 1);
  }

  /** Soaks for a while, at least one round. */
  static Result run(Path directory, Duration time, long seed) {
    long began = System.nanoTime();
    try (Soak soak = new Soak(directory, seed)) {
      while (System.nanoTime() - began < time.toNanos()) {
        soak.round();
      }
      return soak.result(Duration.ofNanos(System.nanoTime() - began).toSeconds());
    }
  }

  private void round() {
    rounds++;
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ROUND_MILLIS);
    subjects.forEach(SoakSubject::roundBegins);
    List<Integer> pids = subjects.stream().map(SoakSubject::pid).toList();
    controllers.forEach(controller -> controller.work(random.nextLong(), ROUND_MILLIS, pids));
    CompletableFuture<Void> trouble = CompletableFuture.runAsync(() -> chaos.rage(subjects, end));
    while (System.nanoTime() < end) {
      subjects.forEach(subject -> subject.ask().ifPresent(judge::complain));
    }
    trouble.join();
    controllers.forEach(controller -> controller.await().forEach(judge::complain));
    judge.judge(subjects);
  }

  private Result result(long seconds) {
    List<String> leaked = new ArrayList<>();
    for (SoakRemote controller : controllers) {
      controller.countLeaks();
      leaked.addAll(controller.await());
    }
    leaked.addAll(leaks.left(lane.temporary()));
    String mark = Crash.MARK + "=" + lane.state();
    Signals.criuWith(mark).forEach(pid -> leaked.add("CRIU " + pid));
    return new Result(
        seconds,
        rounds,
        controllers.stream().mapToInt(SoakRemote::done).sum(),
        controllers.stream().mapToInt(SoakRemote::refused).sum(),
        chaos.made(),
        judge.images(),
        judge.cameBack(),
        judge.replaced(),
        judge.lost(),
        judge.complaints(),
        leaked);
  }

  @Override
  public void close() {
    controllers.forEach(SoakRemote::close);
    subjects.forEach(SoakSubject::close);
    lane.close();
  }
}
