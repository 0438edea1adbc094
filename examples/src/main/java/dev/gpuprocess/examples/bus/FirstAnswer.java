package dev.gpuprocess.examples.bus;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.options.HostMemory;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.Locale;

/**
 * A measurement of the time from a restore request to the first answer of a process that serves
 * requests from its GPU memory: with its image on a tmpfs, in the page cache, and on a disk with a
 * cold cache; through this library, and by the driver's calls and CRIU's command.
 */
final class FirstAnswer {

  private final Machine machine;
  private final Place place;
  private final PrintStream out;
  private final GpuCheckpoints checkpoints;

  FirstAnswer(Machine machine, Place place, PrintStream out) {
    this.machine = machine;
    this.place = place;
    this.out = out;
    this.checkpoints =
        machine.checkpoints().toBuilder().hostMemory(HostMemory.in(place.tmpfs())).build();
  }

  /** Seconds from the request to the first answer. */
  private record Answers(double tmpfs, double cached, double cold) {

    @Override
    public String toString() {
      return String.format(
          Locale.ROOT,
          "%.2f s from tmpfs, %.2f s from the page cache, %.2f s cold from disk",
          tmpfs,
          cached,
          cold);
    }
  }

  /**
   * Measures and prints a line at the end.
   *
   * @param gpu the GPU memory of the process
   * @param host its host memory
   */
  void run(Size gpu, Size host) throws IOException, InterruptedException {
    TouchedMemory.touch(place.tmpfs(), 2L * (gpu.mebibytes() + host.mebibytes()));
    Answers here = measured(gpu, host, false);
    Answers raw = measured(gpu, host, true);
    out.printf(
        "serving engine, %s on the GPU and %s in host memory, restore to first answer: %s; raw %s%n",
        gpu, host, here, raw);
  }

  private Answers measured(Size gpu, Size host, boolean isRaw)
      throws IOException, InterruptedException {
    double tmpfs;
    try (Scratch scratch = place.onTmpfs();
        ServingEngine engine = start(scratch, gpu, host)) {
      Path image = scratch.resolve("image");
      tmpfs = firstAnswer(dump(engine, image, isRaw), "tmpfs");
    }
    try (Scratch scratch = place.onDisk();
        ServingEngine engine = start(scratch, gpu, host)) {
      Path image = scratch.resolve("image");
      Dumped dumped = dump(engine, image, isRaw);
      PageCache.fill(image);
      double cached = firstAnswer(dumped, "page cache");
      engine.end();
      PageCache.drop(image);
      return new Answers(tmpfs, cached, firstAnswer(dumped, "cold"));
    }
  }

  private ServingEngine start(Scratch scratch, Size gpu, Size host) throws IOException {
    return ServingEngine.start(machine, scratch.resolve(""), gpu, host, "torch");
  }

  private Dumped dump(ServingEngine engine, Path image, boolean isRaw)
      throws IOException, InterruptedException {
    Way way =
        isRaw
            ? new Raw(machine.checkpoints().cuda(), engine.pid())
            : new Library(checkpoints, engine.pid());
    String answer = engine.answer();
    String all = engine.all();
    way.suspend();
    way.dump(image);
    engine.awaitEnd();
    out.printf("%s: %s%n", isRaw ? "raw" : "library", way.steps());
    return new Dumped(way, engine, answer, all);
  }

  /** A dumped engine with its answers from before the dump. */
  private record Dumped(Way way, ServingEngine engine, String answer, String all) {}

  /** Restores the engine and compares its answers; returns the seconds to the first one. */
  private double firstAnswer(Dumped dumped, String from) throws IOException, InterruptedException {
    Stopwatch watch = new Stopwatch();
    dumped.way.restore();
    String first = dumped.engine.answer();
    double seconds = watch.seconds();
    ServingEngine.requireSame(dumped.answer, first);
    ServingEngine.requireSame(dumped.all, dumped.engine.all());
    out.printf(
        Locale.ROOT, "  %s: first answer after %.2f s; %s%n", from, seconds, dumped.way.steps());
    return seconds;
  }
}
