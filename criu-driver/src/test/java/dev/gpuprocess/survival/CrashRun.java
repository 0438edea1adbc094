package dev.gpuprocess.survival;

import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.survival.Crash.Result;
import dev.gpuprocess.survival.Crash.When;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Kills controllers, half of them at the moments of a cycle and half at random. */
final class CrashRun {

  private static final int MACHINES = 2;
  private static final long LONGEST_NANOS = 2_500_000_000L;
  private static final int ATTEMPTS = 3;

  private CrashRun() {}

  /**
   * The whole test, without Maven.
   *
   * @param args the number of kills and the seed
   * @throws Exception when it cannot be done
   */
  public static void main(String[] args) throws Exception {
    long seed = args.length > 1 ? Long.parseLong(args[1]) : System.nanoTime();
    Path directory = Files.createTempDirectory("gpuprocess-crash-test");
    List<Result> results;
    try {
      results = kill(directory, Integer.parseInt(args[0]), seed);
    } finally {
      FileTree.remove(directory);
    }
    for (Result result : results) {
      System.out.println((result.isGood() ? "good  " : "BAD   ") + result);
    }
    System.out.println("seed " + seed);
    System.out.println(figure(results));
    System.exit(results.stream().allMatch(Result::isGood) ? 0 : 1);
  }

  static String figure(List<Result> results) {
    long lost = results.stream().filter(result -> result.fault().isPresent()).count();
    long locked = results.stream().filter(Result::locked).count();
    return "crash test: %d kills, %d lost, %d left locked".formatted(results.size(), lost, locked);
  }

  static List<Result> kill(Path directory, int kills, long seed)
      throws InterruptedException, ExecutionException {
    List<List<When>> shares = shares(directory, kills, new Random(seed));
    ExecutorService threads = Executors.newFixedThreadPool(MACHINES);
    try {
      List<Callable<List<Result>>> work = new ArrayList<>();
      for (int i = 0; i < MACHINES; i++) {
        Path own = directory.resolve("machine" + i);
        List<When> share = shares.get(i);
        work.add(() -> killOn(own, share));
      }
      List<Result> results = new ArrayList<>();
      for (Future<List<Result>> done : threads.invokeAll(work)) {
        results.addAll(done.get());
      }
      return results;
    } finally {
      threads.shutdownNow();
    }
  }

  private static List<Result> killOn(Path directory, List<When> share) {
    try (SimulatedMachine machine = new SimulatedMachine(directory)) {
      return share.stream().map(when -> happen(machine, when)).toList();
    }
  }

  private static Result happen(SimulatedMachine machine, When when) {
    for (int attempt = 1; ; attempt++) {
      try {
        return Crash.happen(machine, when);
      } catch (PidTakenException e) {
        // A stranger got the pid while the process was on disk.
        if (attempt == ATTEMPTS) {
          throw e;
        }
      }
    }
  }

  private static List<List<When>> shares(Path directory, int kills, Random random) {
    List<When> exact = new ArrayList<>();
    List<String> moments = moments(directory.resolve("rehearsal"));
    for (int i = 0; i < moments.size(); i++) {
      exact.add(new When(i + " " + moments.get(i), i, 0));
    }
    Collections.shuffle(exact, random);
    List<When> all = new ArrayList<>(exact.subList(0, Math.min(exact.size(), kills * 3 / 5)));
    while (all.size() < kills) {
      all.add(new When("random", -1, (long) (random.nextDouble() * LONGEST_NANOS)));
    }
    List<List<When>> shares = new ArrayList<>();
    for (int machine = 0; machine < MACHINES; machine++) {
      List<When> share = new ArrayList<>();
      for (int i = machine; i < all.size(); i += MACHINES) {
        share.add(all.get(i));
      }
      shares.add(share);
    }
    return shares;
  }

  private static List<String> moments(Path directory) {
    try (SimulatedMachine machine = new SimulatedMachine(directory);
        Subject subject = Subject.start(machine.driver)) {
      FaultPoints moments = new FaultPoints();
      new CrashCycle(machine.checkpoints(moments, false), subject.pid(), machine.images()).run(1);
      return moments.seen();
    }
  }
}
