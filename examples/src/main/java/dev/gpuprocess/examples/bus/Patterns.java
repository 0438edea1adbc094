package dev.gpuprocess.examples.bus;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.fixtures.Pattern;
import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;

/**
 * Processes whose GPU memory is full of a known pattern. A processor takes long to fill it and to
 * look at it; so where the GPU has room for all of them they are filled, and looked at, at the same
 * time, and else one after the other.
 */
final class Patterns implements AutoCloseable {

  private static final Size BESIDES = Size.of("1g");

  private final Machine machine;
  private final Size size;
  private final PrintStream out;
  private final Queue<Pattern> filled = new ConcurrentLinkedQueue<>();
  private final List<Pattern> used = new ArrayList<>();
  private final boolean together;

  /**
   * Prepares.
   *
   * @param size of each
   * @param count how many there will be
   * @param out is told what takes its time
   */
  Patterns(Machine machine, Size size, int count, PrintStream out)
      throws IOException, InterruptedException {
    this.machine = machine;
    this.size = size;
    this.out = out;
    this.together = count * (size.bytes() + BESIDES.bytes()) < free(machine);
    if (together) {
      fill(count);
    }
  }

  private static long free(Machine machine) {
    return machine.checkpoints().gpus().gpus().orElse(List.of()).stream()
        .mapToLong(Gpu::freeBytes)
        .min()
        .orElse(0);
  }

  private void fill(int count) throws IOException, InterruptedException {
    out.printf(
        "%s: GPU memory is filled in %s%n", size, count == 1 ? "a process" : count + " processes");
    List<Machine> where = Stream.generate(() -> machine).limit(count).toList();
    try {
      double unused =
          Parallel.seconds(
              where,
              here -> filled.add(here.on(Pattern.launch(size.mebibytes())).notOurChild().start()));
    } catch (IOException | InterruptedException | RuntimeException e) {
      close();
      throw e;
    }
  }

  /** Whether all of them are there at the same time. */
  boolean areTogether() {
    return together;
  }

  /** The next one. Unless they are together the one before is looked at and ended. */
  Pattern next() throws IOException, InterruptedException {
    if (!together) {
      verify();
      close();
      fill(1);
    }
    Pattern next = filled.remove();
    used.add(next);
    return next;
  }

  /**
   * Looks at every word of those that were given out.
   *
   * @throws IOException when one of them is not what it was
   */
  void verify() throws IOException, InterruptedException {
    if (!used.isEmpty()) {
      out.printf("%s: every word of the memory is checked%n", size);
      double unused = Parallel.seconds(used, this::require);
    }
  }

  private void require(Pattern pattern) {
    String found = pattern.verify();
    if (!found.equals("ok %s bytes".formatted(size.bytes()))) {
      throw new IllegalStateException("the memory is not what it was: " + found);
    }
  }

  @Override
  public void close() {
    used.forEach(Pattern::close);
    used.clear();
    filled.forEach(Pattern::close);
    filled.clear();
  }
}
