package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.cuda.LibCuda;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * What works in a controller of the soak: the library as one class loader has it. A controller has
 * two, which know nothing of each other; so only the JDK's types are between them.
 */
public final class SoakShift implements Function<String, List<String>> {

  /** A command: report the leaks. */
  static final String LEAKS = "leaks";

  /** A command: all processes have rested, and everything was loaded and opened once. */
  static final String WARM = "warm";

  /** The prefix of the numbers of verbs since the last answer. */
  static final String DONE = "done ";

  private static final int THREADS = 6;
  private static final int LONGEST_PAUSE_MILLIS = 10;
  private static final int SHOWN_FRAMES = 3;

  private final ControllerReport tally = new ControllerReport();
  private final Path temporary = Path.of(System.getProperty("java.io.tmpdir"));
  private final int workers;
  private final GpuCheckpoints checkpoints;
  private final SoakVerbs verbs;
  private final QuietJob quiet;
  private final FullGpu full;
  private final ExecutorService threads = Executors.newFixedThreadPool(THREADS);
  private Leaks leaks = new Leaks();

  /**
   * A shift.
   *
   * @param arguments the place, the shift's name, how many workers it has, and a seed
   */
  public SoakShift(List<String> arguments) {
    int count = arguments.size();
    SoakPlace place = SoakPlace.of(arguments.subList(0, count - 3));
    String name = arguments.get(count - 3);
    this.workers = Integer.parseInt(arguments.get(count - 2));
    SlowCriu slow = new SlowCriu(new Random(Long.parseLong(arguments.get(count - 1))));
    ExclusiveCallDriver driver = driver(place.machine(), place);
    this.checkpoints =
        SimulatedMachine.hastyCheckpoints(driver, place.machine(), place.state(), slow);
    Leaks.open(checkpoints);
    this.verbs = new SoakVerbs(checkpoints, place.images(), place.squat(), name, tally);
    this.quiet = new QuietJob(checkpoints, driver, tally);
    GpuCheckpoints crowded =
        SimulatedMachine.hastyCheckpoints(
            driver(place.crowdMachine(), place), place.crowdMachine(), place.crowdState(), slow);
    // Which of its verbs is the first to read the GPU, and in which round, is chance.
    Leaks.open(crowded);
    this.full = new FullGpu(crowded, tally);
  }

  private ExclusiveCallDriver driver(Path machine, SoakPlace place) {
    return new ExclusiveCallDriver(LibCuda.in(machine), place.marks(), tally::addViolation);
  }

  @Override
  public List<String> apply(String order) {
    if (order.equals(WARM)) {
      leaks = new Leaks();
    } else if (order.equals(LEAKS)) {
      leaks.left(temporary).forEach(leak -> tally.addViolation(Violation.Kind.LEAKED, leak));
    } else {
      work(SoakOrder.read(order));
    }
    return Stream.concat(
            tally.takeViolations().stream().map(Violation::line),
            Stream.of(DONE + tally.takeDone() + " " + tally.takeRefused()))
        .toList();
  }

  private void work(SoakOrder order) {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(order.millis());
    Random random = new Random(order.seed());
    List<Runnable> work = new ArrayList<>();
    Stream.generate(() -> new Random(random.nextLong()))
        .limit(workers)
        .forEach(own -> work.add(() -> verbs.work(own, order.pids(), end)));
    Random readers = new Random(random.nextLong());
    work.add(() -> read(readers, order.all(), end));
    Random crowding = new Random(random.nextLong());
    work.add(() -> full.work(crowding, order.crowd(), end));
    if (order.quiet() > 0) {
      work.add(() -> quiet.work(order.quiet(), end));
    }
    work.stream().<Future<?>>map(threads::submit).toList().forEach(this::await);
  }

  private void await(Future<?> worker) {
    try {
      worker.get();
    } catch (ExecutionException e) {
      String where =
          Stream.of(e.getCause().getStackTrace())
              .map(StackTraceElement::toString)
              .filter(frame -> frame.startsWith("dev.gpuprocess"))
              .limit(SHOWN_FRAMES)
              .collect(Collectors.joining(", "));
      tally.addViolation(Violation.Kind.WRONG, e.getCause() + " at " + where);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Inspects processes, which delays no verb. */
  private void read(Random random, List<Integer> pids, long end) {
    while (System.nanoTime() < end) {
      try {
        checkpoints.inspect(pids.get(random.nextInt(pids.size())));
      } catch (GpuCheckpointException e) {
        // Gone, stopped, hanging in a call, or no descriptors: then there is nothing to see.
        SoakVerbs.removeLogs(e);
      }
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(random.nextInt(LONGEST_PAUSE_MILLIS)));
    }
  }
}
