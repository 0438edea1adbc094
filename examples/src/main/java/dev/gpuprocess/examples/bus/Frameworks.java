package dev.gpuprocess.examples.bus;

import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import java.io.IOException;
import java.io.PrintStream;
import java.util.List;

/** A measurement of programs whose GPU memory is allocated by PyTorch and by CuPy. */
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

  void run(Size size) throws IOException, InterruptedException {
    for (String framework : List.of("PyTorch", "CuPy")) {
      run(size, framework, framework.equals("CuPy") ? "cupy" : "torch");
    }
  }

  private void run(Size size, String name, String framework)
      throws IOException, InterruptedException {
    long bytes = size.bytes() + place.besides(machine);
    try (Scratch scratch = place.onDisk();
        ServingEngine engine =
            ServingEngine.start(machine, scratch.resolve(""), size, HOST, framework);
        ReadyMemory memory = ReadyMemory.of(machine.checkpoints(), place.tmpfs(), 1, bytes)) {
      String all = engine.all();
      boolean unused = memory.await(size, out);
      Raw alone = new Raw(machine.checkpoints().cuda(), engine.pid());
      Moves raw = Moves.of(List.of(alone), name + ", raw", memory, out);
      ServingEngine.requireSame(all, engine.all());
      Library library = new Library(memory.checkpoints(), engine.pid());
      Moves here = Moves.of(List.of(library), name + ", library", memory, out);
      ServingEngine.requireSame(all, engine.all());
      table.add(size, "suspend, " + name, raw.suspend(), here.suspend());
      table.add(size, "resume, " + name, raw.resume(), here.resume());
    }
  }
}
