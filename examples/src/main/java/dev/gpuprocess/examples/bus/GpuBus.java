package dev.gpuprocess.examples.bus;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.HostMemory;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/**
 * A program that measures how fast GPU memory moves between a GPU, host memory and images: by this
 * library and by the driver's calls and CRIU's command, in turn in one run. It prints a table, and
 * as the last line a summary for 16 GiB, or for the largest size.
 */
public final class GpuBus {

  private static final int WARM_UP_MIB = 256;

  private static final String SERVING = "--serving=";

  private final Machine machine;
  private final Place place;
  private final PrintStream out;
  private final Table table = new Table();

  GpuBus(Machine machine, Place place, PrintStream out) {
    this.machine = machine;
    this.place = place;
    this.out = out;
  }

  /**
   * Measures.
   *
   * @param args {@code --simulated} to try the program itself; {@code --processes} to measure
   *     several processes too; {@code --frameworks} to measure PyTorch and CuPy; {@code
   *     --serving=GPU,HOST} to measure a restore to its first answer; a directory on a tmpfs; a
   *     directory on a disk; sizes
   * @throws IOException if an image cannot be made
   * @throws InterruptedException if interrupted
   */
  public static void main(String[] args) throws IOException, InterruptedException {
    List<String> words = new ArrayList<>(List.of(args));
    boolean simulated = words.remove("--simulated");
    boolean processes = words.remove("--processes");
    boolean frameworks = words.remove("--frameworks");
    List<Size> serving =
        words.stream()
            .filter(word -> word.startsWith(SERVING))
            .flatMap(word -> Stream.of(word.substring(SERVING.length()).split(",")))
            .map(Size::of)
            .toList();
    words.removeIf(word -> word.startsWith(SERVING));
    Place place = new Place(Path.of(words.get(0)), Path.of(words.get(1)));
    List<Size> sizes = words.stream().skip(2).map(Size::of).toList();
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      System.out.println(machine.headline("gpu-bus"));
      if (!serving.isEmpty()) {
        new FirstAnswer(machine, place, System.out).run(serving.get(0), serving.get(1));
      }
      if (!sizes.isEmpty()) {
        new GpuBus(machine, place, System.out).run(sizes, processes, frameworks);
      }
    }
  }

  void run(List<Size> sizes, boolean processes, boolean frameworks)
      throws IOException, InterruptedException {
    Stopwatch watch = new Stopwatch();
    Size main = Table.mainOf(sizes);
    out.printf(
        "host memory and images in %s (%s), images in %s (%s)%n",
        place.tmpfs(),
        Files.getFileStore(place.tmpfs()).type(),
        place.disk(),
        Files.getFileStore(place.disk()).type());
    try {
      warmUp(sizes);
      for (Size size : sizes) {
        new OneSize(machine, place, table, out, size).run();
        out.printf(Locale.ROOT, "  %.0f s until here%n", watch.seconds());
      }
      if (processes) {
        new Processes(machine, place, table, out).run(main);
      }
      if (frameworks) {
        new Frameworks(machine, place, table, out).run(main);
      }
    } finally {
      out.println();
      out.println(table.text());
      out.println();
    }
    out.println(table.summary(main));
  }

  /**
   * Uses the host memory once, because memory of a virtual machine is slow the first time, and the
   * library once, because the JVM loads its classes then.
   */
  private void warmUp(List<Size> sizes) throws IOException, InterruptedException {
    int most = sizes.stream().mapToInt(Size::mebibytes).max().orElseThrow();
    int least = sizes.stream().mapToInt(Size::mebibytes).min().orElseThrow();
    out.println("warming up");
    // For the GPU memory, its image, and the page cache of another image.
    TouchedMemory.touch(place.tmpfs(), 4L * most);
    GpuCheckpoints here =
        machine.checkpoints().toBuilder().hostMemory(HostMemory.in(place.tmpfs())).build();
    try (Pattern pattern =
            machine.on(Pattern.launch(Math.min(least, WARM_UP_MIB))).notOurChild().start();
        Scratch scratch = place.onTmpfs()) {
      Library library = new Library(here, (int) pattern.pid());
      Trip unused = Trip.of(library, pattern, scratch.resolve("image"));
    }
  }
}
