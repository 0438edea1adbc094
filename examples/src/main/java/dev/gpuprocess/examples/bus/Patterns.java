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
 * Processes whose GPU memory is full of a known pattern. The CPU takes long to write and to compare
 * it. So if the GPU has memory for all processes they are filled, and compared, at the same time,
 * else one after the other.
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
   * Fills the processes if the GPU has memory for all of them.
   *
   * @param size the GPU memory of each process
   * @param count the number of processes
   * @param out the stream for progress
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

  /** Returns whether all processes exist at the same time. */
  boolean areTogether() {
    return together;
  }

  /** Returns the next process. Unless all exist together, its predecessor is verified and ended. */
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
   * Compares every word of the processes that were returned.
   *
   * @throws IOException if a word differs
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
      throw new IllegalStateException("the GPU memory differs: " + found);
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
