package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A controller of the soak in a JVM of its own. It is told what to do line by line. */
final class SoakController {

  /** Before a seed, milliseconds, and the pids. */
  static final String ROUND = "round";

  /** Asks what it leaks. */
  static final String LEAKS = "leaks";

  /** Before what must not be. */
  static final String COMPLAINT = "complaint ";

  /** Before the numbers of verbs done and refused, at the end of each answer. */
  static final String DONE = "done ";

  private static final int THREADS = 2;

  private final SoakVerbs verbs;
  private final Path temporary;
  private final ExecutorService threads = Executors.newFixedThreadPool(THREADS);
  private Leaks leaks = new Leaks();
  private boolean warm;

  private SoakController(SoakVerbs verbs, Path temporary) {
    this.verbs = verbs;
    this.temporary = temporary;
  }

  /**
   * Works until its input ends.
   *
   * @param args machine, state directory, directory for images, its name
   * @throws Exception when it cannot work
   */
  public static void main(String[] args) throws Exception {
    GpuCheckpoints checkpoints = Lane.hastyCheckpoints(Path.of(args[0]), Path.of(args[1]));
    Leaks.open(checkpoints);
    SoakVerbs verbs = new SoakVerbs(checkpoints, Path.of(args[2]), args[3]);
    SoakController controller =
        new SoakController(verbs, Path.of(System.getProperty("java.io.tmpdir")));
    try (BufferedReader orders =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String order = orders.readLine(); order != null; order = orders.readLine()) {
        controller.obey(List.of(order.split(" ")));
      }
    }
    System.exit(0);
  }

  private void obey(List<String> order) throws InterruptedException {
    if (order.get(0).equals(LEAKS)) {
      leaks.left(temporary).forEach(leak -> System.out.println(COMPLAINT + leak));
    } else {
      long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Long.parseLong(order.get(2)));
      work(
          new Random(Long.parseLong(order.get(1))),
          end,
          order.stream().skip(3).map(Integer::valueOf).toList());
    }
    System.out.println(DONE + verbs.done() + " " + verbs.refused());
  }

  private void work(Random random, long end, List<Integer> pids) throws InterruptedException {
    List<? extends Future<?>> working =
        Stream.generate(() -> new Random(random.nextLong()))
            .limit(THREADS)
            .map(own -> threads.submit(() -> verbs.work(own, pids, end)))
            .toList();
    for (Future<?> worker : working) {
      try {
        worker.get();
      } catch (ExecutionException e) {
        System.out.println(COMPLAINT + e.getCause());
      }
    }
    if (!warm) {
      // By now everything has been loaded and opened once.
      warm = true;
      leaks = new Leaks();
    }
  }
}
