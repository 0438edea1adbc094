package dev.gpuprocess.examples.bus;

import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Measures how long a process that serves from its GPU memory takes from the request to restore it
 * to its first answer, with its image in the page cache and with nothing of it in memory, through
 * this library and by the driver's calls and CRIU's command.
 */
public final class GpuServingEngine {

  private final Machine machine;
  private final PrintStream out;

  GpuServingEngine(Machine machine, PrintStream out) {
    this.machine = machine;
    this.out = out;
  }

  /** Seconds from the request to the first answer. */
  private record Answers(double cached, double cold) {

    @Override
    public String toString() {
      return String.format(
          Locale.ROOT, "%.2f s from the page cache, %.2f s cold from disk", cached, cold);
    }
  }

  /**
   * Measures.
   *
   * @param args {@code --simulated} to try the program itself; a directory on a disk; how much
   *     memory the process holds on the GPU, and in host memory
   * @throws IOException when an image cannot be made
   * @throws InterruptedException when interrupted
   */
  public static void main(String[] args) throws IOException, InterruptedException {
    List<String> words = new ArrayList<>(List.of(args));
    boolean simulated = words.remove("--simulated");
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      System.out.println(machine.headline("gpu-serving-engine"));
      new GpuServingEngine(machine, System.out)
          .run(Path.of(words.get(0)), Size.of(words.get(1)), Size.of(words.get(2)));
    }
  }

  void run(Path disk, Size gpu, Size host) throws IOException, InterruptedException {
    TouchedMemory.touch(Path.of("/dev/shm"), 2L * (gpu.mebibytes() + host.mebibytes()));
    Answers here = measured(disk, gpu, host, false);
    Answers raw = measured(disk, gpu, host, true);
    out.printf(
        "serving engine, %s on the GPU and %s in host memory, restore to first answer: %s; raw %s%n",
        gpu, host, here, raw);
  }

  private Answers measured(Path disk, Size gpu, Size host, boolean isRaw)
      throws IOException, InterruptedException {
    try (Scratch scratch = Scratch.of(Files.createTempDirectory(disk, "serving-engine"));
        ServingEngine engine = ServingEngine.start(machine, scratch.resolve(""), gpu, host)) {
      Way way =
          isRaw
              ? new Raw(machine.checkpoints().cuda(), engine.pid())
              : new Library(machine.checkpoints(), engine.pid());
      String answer = engine.answer();
      String all = engine.all();
      Path image = scratch.resolve("image");
      way.suspend();
      way.dump(image);
      engine.awaitEnd();
      out.printf("%s: %s%n", isRaw ? "raw" : "here", way.steps());
      PageCache.fill(image);
      double cached = firstAnswer(way, engine, answer);
      requireSame(all, engine.all());
      out.printf(Locale.ROOT, "  page cache: first answer after %.2f s%n", cached);
      engine.end();
      PageCache.drop(image);
      double cold = firstAnswer(way, engine, answer);
      requireSame(all, engine.all());
      out.printf(Locale.ROOT, "  cold: first answer after %.2f s; %s%n", cold, way.steps());
      return new Answers(cached, cold);
    }
  }

  private static double firstAnswer(Way way, ServingEngine engine, String expected)
      throws IOException, InterruptedException {
    long began = System.nanoTime();
    way.restore();
    String answer = engine.answer();
    double seconds = (System.nanoTime() - began) / 1e9;
    requireSame(expected, answer);
    return seconds;
  }

  private static void requireSame(String expected, String found) {
    if (!found.equals(expected)) {
      throw new IllegalStateException("the engine answers " + found + ", not " + expected);
    }
  }
}
