package dev.gpuprocess.examples.slot;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.slot.GpuSlot;
import dev.gpuprocess.slot.SlotProcess;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * {@code SlotDemo SECONDS [SEED]}: six processes take turns on two simulated GPUs, while driver
 * calls fail and hang and the scheduler is killed. Each process is judged by its own counter and
 * pattern. The exit code is 0 only if none was lost, and, in at least a minute, each had its share
 * of its GPU within 20 %.
 */
public final class SlotDemo implements AutoCloseable {

  private static final int GPUS = 2;
  private static final int PROCESSES = 6;
  private static final int MEBIBYTES = 16;
  private static final double TOLERANCE = 0.20;
  private static final int LONG_ENOUGH = 60;
  private static final int UNKNOWN_ERROR = 999;
  private static final int NOT_READY = 600;
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  /** How much longer a short run may take on a busy machine, until a process was on disk. */
  private static final Duration LONGER = Duration.ofSeconds(150);

  private static final List<String> FUNCTIONS =
      List.of(
          "cuCheckpointProcessLock",
          "cuCheckpointProcessCheckpoint",
          "cuCheckpointProcessRestore",
          "cuCheckpointProcessUnlock");

  private final PrintStream out;
  private final int seconds;
  private final Random random;
  private final Scratch scratch = Scratch.create();
  private final SimulatedDriver machine = SimulatedDriver.builder().gpus(GPUS).create();
  private final List<Turner> turners;
  private final Map<String, AtomicInteger> events = new ConcurrentHashMap<>();
  private @Nullable Process scheduler;

  private SlotDemo(int seconds, long seed, PrintStream out) {
    this.seconds = seconds;
    this.random = new Random(seed);
    this.out = out;
    this.turners =
        IntStream.range(0, PROCESSES)
            .mapToObj(
                i -> new Turner(machine.start(Counter.launch(MEBIBYTES).gpu(i % GPUS)), i % GPUS))
            .toList();
  }

  /**
   * The result.
   *
   * @param swaps how often a process got its turn
   * @param kills how often the scheduler was killed
   * @param dumps how often a process went to disk
   * @param lost what is wrong with each process that did not continue
   * @param deviation how far the share of a process is from that of its neighbours at most
   */
  record Result(int swaps, int kills, int dumps, List<String> lost, double deviation) {
    String text() {
      return "slot: %s swaps, %s lost".formatted(swaps, lost.size());
    }
  }

  /**
   * Runs the demo and exits.
   *
   * @param args seconds, and a seed
   */
  public static void main(String[] args) throws IOException {
    int seconds = Integer.parseInt(args[0]);
    long seed = args.length > 1 ? Long.parseLong(args[1]) : new Random().nextInt(1_000_000);
    System.out.printf(
        "%s processes on %s simulated GPUs for %s s, seed %s%n", PROCESSES, GPUS, seconds, seed);
    Result result = run(seconds, seed, System.out);
    System.out.println(result.text());
    boolean fair = seconds < LONG_ENOUGH || result.deviation() <= TOLERANCE;
    System.exit(result.lost().isEmpty() && fair ? 0 : 1);
  }

  /** Runs the demo. */
  static Result run(int seconds, long seed, PrintStream out) throws IOException {
    try (SlotDemo demo = new SlotDemo(seconds, seed, out)) {
      return demo.run();
    }
  }

  private Path state() {
    return machine.stateDirectory();
  }

  private Path images() {
    return scratch.resolve("images");
  }

  private GpuCheckpoints checkpoints() {
    return GpuCheckpoints.builder().cuda(machine.directory()).stateDirectory(state()).build();
  }

  private Result run() throws IOException {
    long end = System.nanoTime() + Duration.ofSeconds(seconds).toNanos();
    long[] pids = turners.stream().mapToLong(Turner::pid).toArray();
    // Later all of them may be suspended, and hold nothing.
    long budget = budget();
    startScheduler(pids, budget);
    turners.forEach(Turner::start);
    int kills = 0;
    // At least one kill, however short this is.
    long nextKill = System.nanoTime() + (end - System.nanoTime()) / 3;
    while (System.nanoTime() < end || (!isEnough() && System.nanoTime() < end + LONGER.toNanos())) {
      injectFault();
      boolean unused = Await.until(Duration.ofMillis(500L + random.nextInt(2000)), () -> false);
      machine.clearFaults();
      if (System.nanoTime() > nextKill) {
        killScheduler();
        kills++;
        startScheduler(new long[0], budget);
        nextKill = System.nanoTime() + Duration.ofSeconds(10 + random.nextInt(20)).toNanos();
      }
    }
    killScheduler();
    // The shares are those of the slot.
    turners.forEach(Turner::stop);
    turners.forEach(Turner::close);
    return judged(kills + 1);
  }

  private boolean isEnough() {
    return count("STARTED").get() > PROCESSES && count("DUMPED").get() > 0;
  }

  private void startScheduler(long[] pids, long budget) throws IOException {
    List<String> arguments = new ArrayList<>();
    arguments.add(machine.directory().toString());
    arguments.add(state().toString());
    arguments.add(images().toString());
    arguments.add(Long.toString(Math.max(200, seconds * 1000L / 150)));
    arguments.add(Long.toString(budget));
    for (long pid : pids) {
      arguments.add(Long.toString(pid));
    }
    Process started =
        new ProcessBuilder(TestJvm.command(SlotScheduler.class, arguments.toArray(String[]::new)))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    scheduler = started;
    Thread reader = new Thread(() -> read(started), "events of " + started.pid());
    reader.setDaemon(true);
    reader.start();
    AtomicInteger open = count(SlotScheduler.OPEN + " " + PROCESSES + " " + started.pid());
    if (!Await.until(PATIENCE, () -> open.get() > 0 || !started.isAlive()) || open.get() == 0) {
      throw new IllegalStateException("the scheduler did not find the queue of its predecessor");
    }
  }

  /** Returns less than the suspended processes hold, so that one of them is on disk. */
  private long budget() {
    if (!Await.until(PATIENCE, () -> most().isPresent())) {
      throw new IllegalStateException("the GPUs cannot be read");
    }
    return most().orElseThrow() * (PROCESSES - GPUS) - 1;
  }

  /** Returns the most that a process holds on a GPU; empty when the GPUs do not answer in time. */
  private OptionalLong most() {
    return checkpoints().gpus().gpus().orElse(List.of()).stream()
        .flatMap(gpu -> gpu.users().stream())
        .mapToLong(user -> user.bytes().orElse(0))
        .max();
  }

  private AtomicInteger count(String event) {
    return events.computeIfAbsent(event, none -> new AtomicInteger());
  }

  private void read(Process jvm) {
    try (BufferedReader lines = jvm.inputReader()) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] words = line.split(" ");
        int unused =
            words[0].equals(SlotScheduler.OPEN)
                ? count(line + " " + jvm.pid()).incrementAndGet()
                : count(words[3].replace(":", "")).incrementAndGet();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void killScheduler() {
    Process killed = scheduler;
    if (killed != null) {
      TestJvm.end(killed);
    }
  }

  private void injectFault() {
    long pid = turners.get(random.nextInt(turners.size())).pid();
    int function = random.nextInt(FUNCTIONS.size());
    Fault fault = Fault.in(FUNCTIONS.get(function)).pid(pid).call(1);
    if (random.nextInt(3) == 0) {
      machine.faults(fault.hangs(Duration.ofMillis(300)));
    } else {
      machine.faults(fault.answers(function == 0 ? NOT_READY : UNKNOWN_ERROR));
    }
  }

  /** Takes all processes out of the queue, brings them back, and looks at each. */
  private Result judged(int kills) {
    List<String> lost = new ArrayList<>();
    GpuCheckpoints checkpoints = checkpoints();
    Map<Long, SlotProcess> left = new TreeMap<>();
    // No turn ends and no process is dumped: only the record of the queue is read.
    try (GpuSlot slot = GpuSlot.named("demo", checkpoints).quantum(Duration.ofHours(1)).open()) {
      turners.forEach(each -> slot.release(each.pid()));
      turners.forEach(each -> remove(slot, each, left, lost));
    }
    for (Turner each : turners) {
      bringBack(checkpoints, each, left.get(each.pid()), lost);
    }
    for (Turner each : turners) {
      String verdict = each.verdict();
      if (!verdict.isEmpty()) {
        lost.add("process %s %s".formatted(each.pid(), verdict));
      }
    }
    lost.forEach(out::println);
    double deviation = printShares(left);
    out.printf(
        "%s turns, %s dumped and %s restored, %s moves failed, scheduler killed %s times%n",
        count("STARTED"), count("DUMPED"), count("RESTORED"), count("FAILED"), kills);
    return new Result(count("STARTED").get(), kills, count("DUMPED").get(), lost, deviation);
  }

  private static void remove(
      GpuSlot slot, Turner turner, Map<Long, SlotProcess> left, List<String> lost) {
    try {
      left.put(turner.pid(), slot.remove(turner.pid()));
    } catch (GpuCheckpointException e) {
      lost.add(String.valueOf(e.getMessage()));
    }
  }

  private static void bringBack(
      GpuCheckpoints checkpoints, Turner turner, @Nullable SlotProcess left, List<String> lost) {
    try {
      Path image = left == null ? null : left.image();
      RunningProcess running =
          image == null ? checkpoints.resume(turner.pid()) : checkpoints.open(image).resume();
      if (running.pid() != turner.pid()) {
        lost.add("process %s has another pid".formatted(turner.pid()));
      }
    } catch (GpuCheckpointException e) {
      lost.add(String.valueOf(e.getMessage()));
    }
  }

  private double printShares(Map<Long, SlotProcess> left) {
    double most = 0;
    for (Turner each : turners) {
      int all =
          turners.stream().filter(other -> other.gpu() == each.gpu()).mapToInt(Turner::work).sum();
      double fair = (double) GPUS / PROCESSES;
      double share = (double) each.work() / Math.max(1, all);
      most = Math.max(most, Math.abs(share - fair) / fair);
      SlotProcess last = left.get(each.pid());
      out.printf(
          Locale.ROOT,
          "process %s on GPU %s: counted %s times, %.1f %% of its GPU, last in %s%n",
          each.pid(),
          each.gpu(),
          each.work(),
          share * 100,
          last == null ? "no queue" : last.place());
    }
    out.printf(Locale.ROOT, "shares differ by at most %.1f %% of a share%n", most * 100);
    return most;
  }

  @Override
  public void close() {
    killScheduler();
    turners.forEach(Turner::close);
    machine.close();
    scratch.close();
  }
}
