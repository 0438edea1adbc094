package dev.gpuprocess.examples.bus;

import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import java.io.IOException;
import java.io.PrintStream;
import java.util.List;
import java.util.Locale;

/** Suspends and resumes programs whose GPU memory is allocated by PyTorch and by CuPy. */
final class Frameworks {

  private static final Size HOST = Size.of("64m");

  private final Machine machine;
  private final Place place;
  private final Table table;
  private final PrintStream out;

  Frameworks(Machine machine, Place place, Table table, PrintStream out) {
    this.machine = machine;
    this.place = place;
    this.table = table;
    this.out = out;
  }

  void run(Size size) throws IOException {
    for (String framework : List.of("PyTorch", "CuPy")) {
      run(size, framework, framework.equals("CuPy") ? "cupy" : "torch");
    }
  }

  private void run(Size size, String name, String framework) throws IOException {
    long bytes = size.bytes() + place.besides(machine);
    try (Scratch scratch = place.onDisk();
        ServingEngine engine =
            ServingEngine.start(machine, scratch.resolve(""), size, HOST, framework);
        ReadyMemory memory = ReadyMemory.of(machine.checkpoints(), place.tmpfs(), 1, bytes)) {
      String all = engine.all();
      if (!memory.await()) {
        out.println("  the memory that was to be kept ready was not made in time");
      }
      Times raw = moved(new Raw(machine.checkpoints().cuda(), engine.pid()), "raw", memory);
      ServingEngine.requireSame(all, engine.all());
      Times here = moved(new Library(memory.checkpoints(), engine.pid()), "library", memory);
      ServingEngine.requireSame(all, engine.all());
      table.add(size, "suspend, " + name, raw.suspend, here.suspend);
      table.add(size, "resume, " + name, raw.resume, here.resume);
    }
  }

  private record Times(double suspend, double resume) {}

  private Times moved(Way way, String who, ReadyMemory memory) throws IOException {
    Stopwatch watch = new Stopwatch();
    way.suspend();
    double suspend = watch.seconds();
    memory.settle();
    watch = new Stopwatch();
    way.resume();
    double resume = watch.seconds();
    out.printf(
        Locale.ROOT,
        "  %s: suspend %.2f s, resume %.2f s; %s%n",
        who,
        suspend,
        resume,
        way.steps());
    return new Times(suspend, resume);
  }
}
