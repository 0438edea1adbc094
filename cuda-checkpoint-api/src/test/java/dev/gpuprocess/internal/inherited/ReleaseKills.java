package dev.gpuprocess.internal.inherited;

import dev.gpuprocess.contract.DyingJvm;
import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;

/**
 * Kills JVMs with SIGKILL, at random moments, while they release the GPU device files that forked
 * loaders inherited, and checks that all loaders and their trainer continue.
 *
 * <pre>
 * java ... dev.gpuprocess.internal.inherited.ReleaseKills 20 [SEED]
 * </pre>
 */
public final class ReleaseKills {

  private static final Duration LIMIT = Duration.ofSeconds(30);
  private static final int LOADERS = 12;
  private static final String BEGINS = "begins";

  /** The time of a warm JVM for the remaining loaders. */
  private static final int MOST_MICROSECONDS = 60_000;

  private ReleaseKills() {}

  /**
   * Runs the test.
   *
   * @param args the number of kills, and a seed
   */
  public static void main(String... args) throws Exception {
    int kills = Integer.parseInt(args[0]);
    long seed = args.length > 1 ? Long.parseLong(args[1]) : System.nanoTime();
    System.out.println("seed " + seed);
    if (run(kills, seed) > 0) {
      System.exit(1);
    }
  }

  /**
   * Lets a trainer fork loaders.
   *
   * @return the loaders
   */
  public static List<ProcessIdentity> loaders(Counter trainer, int count) {
    return trainer.forkLoaders(count).stream()
        .map(pid -> ProcessIdentity.of(pid).orElseThrow())
        .toList();
  }

  /**
   * Waits until each loader has answered some messages.
   *
   * @throws AssertionError if the answer is missing or wrong
   */
  public static void requireTraffic(Counter trainer) {
    long before = answered(trainer);
    Workload.await(() -> answered(trainer) > before + 2 * LOADERS, "messages");
  }

  private static long answered(Counter trainer) {
    String[] traffic = trainer.traffic().split(" ");
    if (!traffic[1].equals("0")) {
      throw new AssertionError(traffic[1] + " wrong answers");
    }
    return Long.parseLong(traffic[0]);
  }

  /**
   * Kills JVMs, and adds the figure.
   *
   * @return how many trainers or loaders were lost
   */
  public static int run(int kills, long seed) throws Exception {
    Random random = new Random(seed);
    int lost = 0;
    int between = 0;
    for (int done = 0; done < kills; done++) {
      try (SimulatedDriver machine = SimulatedDriver.builder().gpus(2).memory(1L << 30).create();
          Counter trainer = Counter.start(machine)) {
        List<ProcessIdentity> loaders = loaders(trainer, LOADERS);
        kill(trainer, loaders, random.nextInt(MOST_MICROSECONDS));
        between += loaders.stream().anyMatch(ReleaseKills::holds) ? 1 : 0;
        try {
          requireWhole(trainer, loaders);
        } catch (IOException | IllegalStateException | AssertionError e) {
          System.err.println("kill %s of seed %s: %s".formatted(done, seed, e));
          lost++;
        }
      }
    }
    Figures.add(
        "inherited GPU: %s controllers killed, %s before the last loader's turn had ended, %s lost"
            .formatted(kills, between, lost));
    return lost;
  }

  private static boolean holds(ProcessIdentity loader) {
    return !GpuHandles.of(loader.pid(), () -> {}).isEmpty();
  }

  private static void kill(Counter trainer, List<ProcessIdentity> loaders, int microseconds)
      throws IOException {
    List<String> arguments =
        Stream.concat(Stream.of(trainer.pid()), loaders.stream().map(loader -> (long) loader.pid()))
            .map(String::valueOf)
            .toList();
    boolean unused =
        DyingJvm.awaitEnd(
            DyingJvm.start(Controller.class, arguments), BEGINS, microseconds * 1_000L);
  }

  /** A partial release can be completed. */
  private static void requireWhole(Counter trainer, List<ProcessIdentity> loaders)
      throws IOException {
    Inheritance inheritance = new Inheritance(ProcessIdentity.of(trainer.pid()).orElseThrow());
    for (ProcessIdentity loader : loaders) {
      Workload.await(() -> ProcFs.tracer(loader.pid()).isEmpty(), "the kernel to let go");
    }
    requireTraffic(trainer);
    for (ProcessIdentity loader : loaders) {
      Released unused = GpuRelease.of(loader, inheritance, LIMIT);
      if (holds(loader)) {
        throw new IllegalStateException(loader + " holds something still");
      }
    }
    requireTraffic(trainer);
    if (trainer.increment() != 101) {
      throw new IllegalStateException("the trainer has another number");
    }
  }

  /**
   * A program that releases one loader, prints it, and continues with the others until it is
   * killed.
   */
  static final class Controller {

    private Controller() {}

    /**
     * Runs the program.
     *
     * @param args the pids of the trainer and of its loaders
     */
    public static void main(String... args) throws Exception {
      Inheritance inheritance =
          new Inheritance(ProcessIdentity.of(Long.parseLong(args[0])).orElseThrow());
      for (int i = 1; i < args.length; i++) {
        ProcessIdentity loader = ProcessIdentity.of(Long.parseLong(args[i])).orElseThrow();
        Released unused = GpuRelease.of(loader, inheritance, LIMIT);
        if (i == 1) {
          System.out.println(BEGINS);
        }
      }
      new CountDownLatch(1).await();
    }
  }
}
