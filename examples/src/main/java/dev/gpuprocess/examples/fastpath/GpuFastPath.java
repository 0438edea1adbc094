package dev.gpuprocess.examples.fastpath;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.DumpOptions;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Measures this library against the driver's calls and CRIU's command: a process with GPU memory
 * full of a known pattern goes to an image and back, both ways in turn, and every byte is looked
 * at. Prints a table, and as its last line what it comes to.
 */
public final class GpuFastPath {

  private final Machine machine;
  private final PrintStream out;
  private final List<Row> rows = new ArrayList<>();
  private final List<String> notes = new ArrayList<>();
  private final List<String> summary = new ArrayList<>();

  GpuFastPath(Machine machine, PrintStream out) {
    this.machine = machine;
    this.out = out;
  }

  /**
   * Measures.
   *
   * @param args {@code --simulated} to try the program itself; for how many seconds measurements
   *     are begun; a directory on a tmpfs; one on a disk; sizes, of which the first is measured to
   *     the disk too
   * @throws IOException when an image cannot be made
   * @throws InterruptedException when interrupted
   */
  public static void main(String[] args) throws IOException, InterruptedException {
    List<String> words = new ArrayList<>(List.of(args));
    boolean simulated = words.remove("--simulated");
    long seconds = Long.parseLong(words.get(0));
    List<Size> sizes = words.stream().skip(3).map(Size::of).toList();
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      System.out.println(machine.headline("gpu-fast-path"));
      new GpuFastPath(machine, System.out)
          .run(Path.of(words.get(1)), Path.of(words.get(2)), sizes, seconds);
    }
  }

  void run(Path memory, Path disk, List<Size> sizes, long seconds)
      throws IOException, InterruptedException {
    long began = System.nanoTime();
    Size first = sizes.get(0);
    // The process's memory and its image.
    TouchedMemory.touch(memory, 2L * sizes.stream().mapToInt(Size::mebibytes).max().orElse(0));
    try {
      Trips inMemory = trips(memory, "tmpfs", first);
      summary.add(times("suspend", inMemory.raw.suspend(), inMemory.here.suspend()));
      summary.add(times("dump to tmpfs", inMemory.raw.dump(), inMemory.here.dump()));
      summary.add(times("restore from tmpfs", inMemory.raw.restore(), inMemory.here.restore()));
      disk(disk, first);
      pause(disk, memory, first);
      for (Size size : sizes.subList(1, sizes.size())) {
        if (System.nanoTime() - began > seconds * 1_000_000_000L) {
          notes.add(size + " was not measured: the time is over");
        } else {
          trips(memory, "tmpfs", size);
        }
      }
    } finally {
      report();
    }
    out.println("fast path " + first + ": " + String.join(", ", summary));
  }

  private void report() {
    out.println();
    out.println(Row.HEAD);
    rows.forEach(out::println);
    out.println();
    notes.forEach(out::println);
  }

  /** Both ways, and the size of the image. */
  private record Trips(Trip raw, Trip here, long bytes) {}

  private Trips trips(Path place, String name, Size size) throws IOException, InterruptedException {
    out.printf("%s, %s (%s)%n", size, place, Files.getFileStore(place).type());
    Trip raw;
    try (Pattern pattern = pattern(size);
        Scratch scratch = scratch(place)) {
      Raw way = new Raw(machine.checkpoints().cuda(), (int) pattern.pid());
      raw = Trip.of(way, pattern, pattern::verify, scratch.resolve("image"));
      out.println("  raw   " + way.steps());
    }
    try (Pattern pattern = pattern(size);
        Scratch scratch = scratch(place)) {
      Library way = new Library(machine.checkpoints(), (int) pattern.pid());
      Trip here = Trip.of(way, pattern, pattern::verify, scratch.resolve("image"));
      out.println("  here  " + way.steps());
      rows.add(new Row(size, name, raw, here));
      return new Trips(raw, here, way.bytes());
    }
  }

  private void disk(Path place, Size size) throws IOException, InterruptedException {
    Trips trips = trips(place, "disk", size);
    double direct = DirectWrite.speed(place, size);
    double dump = trips.bytes / trips.here.dump();
    notes.add(
        String.format(
            Locale.ROOT,
            "to disk: %.2f GB/s here, %.2f GB/s in one file by direct I/O",
            dump / 1e9,
            direct / 1e9));
    summary.add(String.format(Locale.ROOT, "to disk %.2f of direct", dump / direct));
  }

  private void pause(Path place, Path memory, Size size) throws IOException {
    GpuCheckpoints here = machine.checkpoints();
    DumpOptions handOver = DumpOptions.builder().build();
    double plain =
        pause(
            here.toBuilder().populateAhead(false).build(),
            DumpOptions.builder().handOver(false).build(),
            new Snapshot(place, size, "as it is"));
    double helped = pause(here, handOver, new Snapshot(place, size, "helped"));
    double spooled =
        pause(
            here.toBuilder().snapshotSpool(memory).build(),
            handOver,
            new Snapshot(place, size, "helped, by way of " + memory));
    notes.add(
        String.format(
            Locale.ROOT,
            "pause of a snapshot to disk: %.2f s as it is, %.2f s populated ahead and handed over,"
                + " %.2f s by way of %s",
            plain,
            helped,
            spooled,
            memory));
    summary.add(String.format(Locale.ROOT, "pause %.2f", spooled / plain));
  }

  private record Snapshot(Path place, Size size, String how) {}

  private double pause(GpuCheckpoints checkpoints, DumpOptions options, Snapshot snapshot)
      throws IOException {
    PauseClock clock = new PauseClock();
    try (Pattern pattern = pattern(snapshot.size);
        Scratch scratch = scratch(snapshot.place)) {
      String before = pattern.verify();
      long began = System.nanoTime();
      checkpoints.toBuilder()
          .listener(clock)
          .build()
          .process(pattern.pid())
          .snapshot(scratch.resolve("image"), options);
      double whole = (System.nanoTime() - began) / 1e9;
      if (!before.startsWith("ok ") || !pattern.verify().equals(before)) {
        throw new IllegalStateException("the memory is not what it was: " + pattern.verify());
      }
      out.printf(
          Locale.ROOT,
          "%s, %s, snapshot %s: pause %.2f s of %.2f s%n",
          snapshot.size,
          snapshot.place,
          snapshot.how,
          clock.seconds(),
          whole);
      return clock.seconds();
    }
  }

  private Pattern pattern(Size size) {
    return machine.on(Pattern.launch(size.mebibytes())).notOurChild().start();
  }

  private static Scratch scratch(Path place) throws IOException {
    return Scratch.of(Files.createTempDirectory(place, "fast-path"));
  }

  private static String times(String what, double raw, double here) {
    return String.format(Locale.ROOT, "%s %.1fx", what, raw / here);
  }
}
