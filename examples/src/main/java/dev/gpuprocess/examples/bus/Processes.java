package dev.gpuprocess.examples.bus;

import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.fixtures.Pattern;
import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;

/** A measurement of one amount of GPU memory in one and in several processes, moved in parallel. */
final class Processes {

  private static final List<Integer> COUNTS = List.of(1, 2, 4, 8);

  private final Machine machine;
  private final Place place;
  private final Table table;
  private final PrintStream out;

  Processes(Machine machine, Place place, Table table, PrintStream out) {
    this.machine = machine;
    this.place = place;
    this.table = table;
    this.out = out;
  }

  void run(Size all) throws IOException, InterruptedException {
    for (int count : COUNTS) {
      run(all, count);
    }
  }

  private void run(Size all, int count) throws IOException, InterruptedException {
    Size each = new Size(Math.max(1, all.mebibytes() / count));
    long bytes = each.bytes() + place.besides(machine);
    try (Patterns filled = new Patterns(machine, each, count, out);
        ReadyMemory memory = ReadyMemory.of(machine.checkpoints(), place.tmpfs(), count, bytes)) {
      if (!filled.areTogether()) {
        out.printf("  %s: not enough GPU memory for %s processes%n", all, count);
        return;
      }
      List<Pattern> patterns = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        patterns.add(filled.next());
      }
      boolean unused = memory.await(all, out);
      List<Way> alone = ways(patterns, pid -> new Raw(machine.checkpoints().cuda(), pid));
      Moves raw = Moves.of(alone, "raw", memory, out);
      List<Way> library = ways(patterns, pid -> new Library(memory.checkpoints(), pid));
      Moves here = Moves.of(library, "library", memory, out);
      String processes = count == 1 ? "1 process" : count + " processes";
      table.add(all, "suspend, " + processes, raw.suspend(), here.suspend());
      table.add(all, "resume, " + processes, raw.resume(), here.resume());
      filled.verify();
    }
  }

  private static List<Way> ways(List<Pattern> patterns, IntFunction<Way> way) {
    return patterns.stream().map(pattern -> way.apply((int) pattern.pid())).toList();
  }
}
