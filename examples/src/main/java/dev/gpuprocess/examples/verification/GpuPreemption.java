package dev.gpuprocess.examples.verification;

import dev.gpuprocess.examples.bus.ServingEngine;
import dev.gpuprocess.examples.bus.Size;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.examples.slot.SlotTimeline;
import dev.gpuprocess.slot.GpuSlot;
import dev.gpuprocess.slot.SlotEvent;
import dev.gpuprocess.slot.SlotEvent.Kind;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.ToDoubleFunction;

/**
 * A program that lets an inference process preempt a training process on one GPU, again and again,
 * in a {@link GpuSlot}. It compares all answers and losses with those of the same programs alone,
 * and prints the parts of the time from a request to its answer. It needs a JRE and CRIU.
 */
public final class GpuPreemption {

  private static final int STEPS_BETWEEN = 10;

  /** The training goes on while it enters the slot, and until each of its suspends begins. */
  private static final int STEPS_FOR_EACH = 100;

  private static final Duration PATIENCE = Duration.ofMinutes(1);

  private final Machine machine;
  private final Size size;
  private final PrintStream out;
  private final List<SlotEvent> events = new CopyOnWriteArrayList<>();
  private final SlotTimeline timeline = new SlotTimeline();

  GpuPreemption(Machine machine, Size size, PrintStream out) {
    this.machine = machine;
    this.size = size;
    this.out = out;
  }

  /**
   * The parts of one preemption, in seconds.
   *
   * @param total from the request until its answer was here
   * @param suspend the training left the GPU
   * @param resume the inference came back to it
   * @param answer from the return of {@link GpuSlot#acquire(long, int)} until the answer was here
   * @param step from {@link GpuSlot#release(long)} until the training had done a step
   */
  private record Preemption(
      double total, double suspend, double resume, double answer, double step) {

    double rest() {
      return total - suspend - resume - answer;
    }
  }

  /**
   * Runs the two programs and exits.
   *
   * @param args how often the inference preempts the training, and the GPU memory of each of the
   *     two, such as {@code 8g}; {@code --simulated} to try the program itself
   */
  public static void main(String[] args) throws IOException {
    List<String> words = new ArrayList<>(List.of(args));
    boolean simulated = words.remove("--simulated");
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      GpuPreemption program = new GpuPreemption(machine, Size.of(words.get(1)), System.out);
      System.exit(program.run(Integer.parseInt(words.get(0))) ? 0 : 1);
    }
  }

  /** Returns whether all answers and losses were those of the programs alone. */
  boolean run(int times) throws IOException {
    out.println(machine.headline("gpu-preempt"));
    int steps = (times + 3) * STEPS_FOR_EACH;
    machine.checkpoints().prepare();
    try (Scratch scratch = Scratch.create()) {
      List<String> expected;
      try (Trainer alone = Trainer.start(scratch, "alone", training(steps))) {
        expected = alone.awaitEnd();
      }
      Files.createDirectory(scratch.resolve("engine"));
      try (ServingEngine engine =
              ServingEngine.start(
                  machine, scratch.resolve("engine"), size, new Size(256), "torch");
          GpuSlot slot =
              GpuSlot.named("gpu-preempt", machine.checkpoints()).listener(this::notice).open()) {
        String answer = engine.answer();
        slot.enqueue(engine.pid(), 1);
        slot.release(engine.pid());
        List<Preemption> preemptions = new ArrayList<>();
        int wrong = 0;
        try (Trainer trainer = Trainer.start(scratch, "preempted", training(steps))) {
          trainer.awaitStep(1);
          slot.enqueue(trainer.pid(), 0);
          for (int i = 0; i < times; i++) {
            trainer.awaitStep(trainer.lines().size() + STEPS_BETWEEN);
            wrong += preempt(slot, engine, trainer, answer, preemptions) ? 0 : 1;
          }
          List<String> lines = trainer.awaitEnd();
          wrong += lines.equals(expected) ? 0 : 1;
          out.printf("%s answers and %s losses%n", preemptions.size(), lines.size() - 1);
        }
        slot.remove(engine.pid());
        out.print(timeline.text(100));
        print(preemptions);
        out.printf(
            "preempted: %s of %s times, %s each, %s%n",
            preemptions.size(),
            times,
            size,
            wrong == 0 ? "all answers and losses equal" : wrong + " differ");
        return wrong == 0;
      }
    }
  }

  private TrainingProgram training(int steps) {
    return machine.isSimulated()
        ? TrainingProgram.withoutPyTorch(steps, size.mebibytes(), machine.environment())
        : TrainingProgram.trainer(steps, size.mebibytes(), Trainer.Loaders.NONE);
  }

  private void notice(SlotEvent event) {
    timeline.accept(event);
    events.add(event);
  }

  /** Returns whether the engine answered as it did alone. */
  private boolean preempt(
      GpuSlot slot,
      ServingEngine engine,
      Trainer trainer,
      String expected,
      List<Preemption> preemptions)
      throws IOException {
    int before = events.size();
    long request = System.nanoTime();
    slot.acquire(engine.pid(), 1);
    long acquired = System.nanoTime();
    String answer = engine.answer();
    long answered = System.nanoTime();
    int steps = trainer.lines().size();
    slot.release(engine.pid());
    trainer.awaitStep(steps + 1);
    preemptions.add(
        new Preemption(
            (answered - request) / 1e9,
            took(before, Kind.SUSPENDED, trainer.pid()),
            took(before, Kind.STARTED, engine.pid()),
            (answered - acquired) / 1e9,
            (System.nanoTime() - answered) / 1e9));
    return answer.equals(expected);
  }

  private double took(int from, Kind kind, int pid) {
    List<SlotEvent> found = new ArrayList<>();
    boolean isThere =
        Await.until(
            PATIENCE,
            () -> {
              found.clear();
              events.stream()
                  .skip(from)
                  .filter(each -> each.kind() == kind && each.process().pid() == pid)
                  .forEach(found::add);
              return !found.isEmpty();
            });
    if (!isThere) {
      throw new IllegalStateException(
          "the slot does not report that process %s was %s: %s".formatted(pid, kind, events));
    }
    return found.get(0).took().toNanos() / 1e9;
  }

  private void print(List<Preemption> preemptions) {
    out.printf("%-44s %8s %8s%n", "seconds", "median", "longest");
    row(preemptions, "request to answer", Preemption::total);
    row(preemptions, "  the training is suspended", Preemption::suspend);
    row(preemptions, "  the inference is resumed", Preemption::resume);
    row(preemptions, "  the inference answers", Preemption::answer);
    row(preemptions, "  the rest: queue, record, checks", Preemption::rest);
    row(preemptions, "release to the next step of the training", Preemption::step);
  }

  private void row(List<Preemption> preemptions, String name, ToDoubleFunction<Preemption> part) {
    double[] sorted = preemptions.stream().mapToDouble(part).sorted().toArray();
    out.printf(
        Locale.ROOT,
        "%-44s %8.2f %8.2f%n",
        name,
        sorted[sorted.length / 2],
        sorted[sorted.length - 1]);
  }
}
