package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Insider;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.IntStream;

/**
 * A program that checks that programs which poll the driver survive suspends, a dump and a restore:
 * the pattern of the fixtures with polling threads, JAX, CuPy, and a named program. It prints a row
 * for each process; the last line is {@code pollers: N of N lived}. With {@code --insiders} it does
 * the same with programs whose threads are inside other calls of the driver: {@link Insider}, JAX
 * and CuPy; the last line is {@code insiders: N of N lived}. It needs a JRE, CRIU and root.
 */
public final class GpuPollers {

  private static final int AT_A_TIME = 6;

  private static final List<Insider.Subject> INSIDERS =
      List.of(Insider.Subject.CHURN, Insider.Subject.FFT, Insider.Subject.SORT);

  private static final int STEPS = 1500;
  private static final Duration PATIENCE = Duration.ofMinutes(4);
  private static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(20);

  private final Machine machine;
  private final Scratch scratch;
  private final int cycles;
  private final int threads;
  private final boolean insiders;
  private final Map<String, Integer> notes = new TreeMap<>();

  private GpuPollers(Machine machine, Scratch scratch, int cycles, int threads, boolean insiders) {
    this.machine = machine;
    this.scratch = scratch;
    this.cycles = cycles;
    this.threads = threads;
    this.insiders = insiders;
  }

  /**
   * Runs the programs and exits.
   *
   * @param args the number of processes of each program, and the number of suspends of each
   *     process; {@code --simulated} to try the program itself; {@code --insiders}; how many
   *     threads of the pattern poll; at the end perhaps further programs, which must print {@code
   *     Shutting down...} when they end
   */
  public static void main(String[] args) {
    List<String> words = new ArrayList<>(List.of(args));
    boolean simulated = words.remove("--simulated");
    boolean insiders = words.remove("--insiders");
    int processes = Integer.parseInt(words.get(0));
    int cycles = Integer.parseInt(words.get(1));
    int threads = Integer.parseInt(words.get(2));
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real();
        Scratch scratch = Scratch.create()) {
      GpuPollers pollers = new GpuPollers(machine, scratch, cycles, threads, insiders);
      System.exit(pollers.run(processes, words.subList(3, words.size()), System.out));
    }
  }

  private int run(int processes, List<String> programs, PrintStream out) {
    ExecutorService pool = Executors.newFixedThreadPool(AT_A_TIME);
    Map<String, Future<String>> rows = new TreeMap<>();
    for (int i = 1; i <= processes; i++) {
      String number = String.format(Locale.ROOT, " %02d", i);
      if (insiders) {
        for (Insider.Subject subject : INSIDERS) {
          start(rows, pool, subject.word() + number, () -> insider(subject));
        }
      } else {
        start(rows, pool, "poller" + number, this::poller);
      }
      if (!machine.isSimulated()) {
        String name = "run" + i;
        start(rows, pool, "JAX" + number, () -> trainer("jax_trainer.py", "jax-" + name));
        start(rows, pool, "CuPy" + number, () -> trainer("cupy_trainer.py", "cupy-" + name));
      }
      for (String program : programs) {
        String file = Path.of(program).getFileName() + number;
        start(rows, pool, file, () -> program(Path.of(program), file));
      }
    }
    long lived = rows.entrySet().stream().filter(row -> print(row, out)).count();
    pool.shutdown();
    String name = insiders ? "insiders" : "pollers";
    out.println(machine.headline("gpu-" + name));
    synchronized (notes) {
      notes.forEach((note, count) -> out.println("  " + count + " checkpoints: " + note));
    }
    out.printf("%s: %s of %s lived%n", name, lived, rows.size());
    return lived == rows.size() ? 0 : 1;
  }

  private static void start(
      Map<String, Future<String>> rows,
      ExecutorService pool,
      String name,
      Callable<String> program) {
    rows.put(name, pool.submit(program));
  }

  private static boolean print(Map.Entry<String, Future<String>> row, PrintStream out) {
    try {
      out.printf("  %-24s lived   %s%n", row.getKey(), row.getValue().get());
      return true;
    } catch (ExecutionException e) {
      out.printf("  %-24s FAILED  %s%n", row.getKey(), e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      out.printf("  %-24s interrupted%n", row.getKey());
    }
    return false;
  }

  private String poller() {
    int mebibytes = 64;
    try (Pattern poller =
        machine.on(Pattern.launch(mebibytes).polling(threads)).notOurChild().start()) {
      String times = trip(() -> (int) poller.pid(), restored -> {});
      long polls = poller.polls();
      await(() -> poller.polls() > polls + 1000, "more polls");
      require(poller.failedPolls() == 0, poller.failedPolls() + " polls failed");
      String verified = poller.verify();
      require(verified.equals("ok %s bytes".formatted((long) mebibytes << 20)), verified);
      return times + ", " + poller.polls() + " polls, memory right";
    }
  }

  private String insider(Insider.Subject subject) {
    try (Insider insider = machine.on(Insider.launch(subject)).notOurChild().start()) {
      await(() -> insider.rounds().stream().noneMatch(rounds -> rounds == 0), "its first rounds");
      String times = trip(() -> (int) insider.pid(), restored -> {});
      List<Long> before = insider.rounds();
      require(
          machine.isSimulated() || before.stream().noneMatch(rounds -> rounds < 0),
          "calls are missing, such as those of cuFFT: set CUFFT to its file; rounds " + before);
      await(() -> isFurther(insider.rounds(), before), "more rounds of each thread");
      require(insider.failedPolls() == 0, "a call failed: " + insider.firstFailure());
      return times + ", rounds of its threads " + insider.rounds();
    }
  }

  private static boolean isFurther(List<Long> rounds, List<Long> before) {
    return IntStream.range(0, before.size())
        .allMatch(i -> rounds.get(i) < 0 || rounds.get(i) > before.get(i));
  }

  private String trainer(String script, String name) {
    TrainingProgram program = TrainingProgram.plain(script, STEPS);
    try (Trainer trainer = Trainer.start(scratch, name, program);
        Trainer reference = Trainer.start(scratch, name + "-undisturbed", program)) {
      trainer.awaitStep(2);
      String times = trip(trainer::pid, trainer::restoredAs);
      int disturbed = trainer.lines().size();
      require(disturbed < STEPS, "the program ended before the last suspend");
      require(
          trainer.awaitEnd().equals(reference.awaitEnd()),
          "the losses differ from an undisturbed run");
      return times + ", " + STEPS + " losses equal";
    }
  }

  private String program(Path program, String name) throws IOException {
    Path output = scratch.resolve(name.replace(' ', '-') + ".out");
    String command = "setsid stdbuf -oL \"$1\" >\"$2\" 2>&1 </dev/null & echo $!";
    ProgramRun starter =
        ProgramRun.of("sh", "-c", command, "sh", program.toString(), output.toString());
    int pid = Integer.parseInt(starter.succeed());
    ProcessIdentity[] identity = {ProcessIdentity.of(pid).orElseThrow()};
    await(() -> read(output).contains("Testing array length"), "its first result");
    String times = trip(() -> pid, restored -> identity[0] = restored);
    await(() -> !identity[0].isAlive(), "its exit");
    require(
        read(output).contains("Shutting down"), "the program ended early: " + tail(read(output)));
    require(!read(output).contains("***ERROR"), "the results are wrong");
    return times + ", results right";
  }

  private static String read(Path file) {
    try {
      return Files.exists(file) ? Files.readString(file) : "";
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String tail(String text) {
    return text.substring(Math.max(0, text.length() - 200)).strip();
  }

  private String trip(Supplier<Integer> pid, Consumer<ProcessIdentity> restored) {
    GpuCheckpoints checkpoints = machine.checkpoints();
    double suspends = 0;
    for (int i = 0; i < cycles; i++) {
      if (i == cycles / 2) {
        Path image = scratch.resolve("image-" + pid.get());
        CheckpointedProcess back =
            noted(checkpoints.process(pid.get()).suspend()).dump(image).restore();
        restored.accept(back.identity());
        back.resume();
        Scratch.of(image).close(); // one of each of many processes would fill the disk
      }
      long began = System.nanoTime();
      noted(checkpoints.process(pid.get()).suspend()).resume();
      suspends += (System.nanoTime() - began) / 1e9;
      LockSupport.parkNanos(PAUSE);
    }
    return String.format(
        Locale.ROOT, "%s suspends of %.2f s and a dump and restore", cycles, suspends / cycles);
  }

  private CheckpointedProcess noted(CheckpointedProcess suspended) {
    for (Step step : suspended.steps()) {
      if (step.name().equals("checkpoint")) {
        synchronized (notes) {
          notes.merge(step.note(), 1, Integer::sum);
        }
      }
    }
    return suspended;
  }

  private static void await(BooleanSupplier condition, String what) {
    require(Await.until(PATIENCE, condition), "not within " + PATIENCE + ": " + what);
  }

  private static void require(boolean condition, String otherwise) {
    if (!condition) {
      throw new IllegalStateException(otherwise);
    }
  }
}
