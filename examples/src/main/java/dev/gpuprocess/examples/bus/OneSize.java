package dev.gpuprocess.examples.bus;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.HostMemory;
import java.io.IOException;
import java.io.PrintStream;
import java.util.OptionalDouble;

/**
 * The measurements with one size of GPU memory, in three processes: the first is suspended and
 * resumed and has the raw image on the tmpfs, the second has the library's image there, and the
 * third has an image on the disk. The memory of each is verified at its end.
 */
final class OneSize {

  private final Machine machine;
  private final Place place;
  private final Table table;
  private final PrintStream out;
  private final Size size;
  private final GpuCheckpoints here;
  private double rawSuspend;
  private double rawPause;

  OneSize(Machine machine, Place place, Table table, PrintStream out, Size size) {
    this.machine = machine;
    this.place = place;
    this.table = table;
    this.out = out;
    this.size = size;
    this.here = machine.checkpoints().toBuilder().hostMemory(HostMemory.in(place.tmpfs())).build();
  }

  void run() throws IOException, InterruptedException {
    boolean imageInMemory = place.hasMemoryFor(size);
    boolean imageOnDisk = place.hasDiskFor(size);
    int count = 1 + (imageInMemory ? 1 : 0) + (imageOnDisk ? 1 : 0);
    try (Patterns patterns = new Patterns(machine, size, count, out)) {
      Pattern first = patterns.next();
      int pid = (int) first.pid();
      double resume = rawSuspendAndResume(pid, imageOnDisk);
      OptionalDouble ready = suspendReady(pid, resume);
      double cold = suspendCold(pid);
      if (imageOnDisk) {
        snapshot(pid);
      }
      if (imageInMemory) {
        Trip raw = trip(raw(pid), "raw", first, place.onTmpfs());
        // The first measurement may be slower than a repetition.
        rawSuspend = Math.min(rawSuspend, raw.suspend());
        tmpfs(patterns.next(), raw);
      } else {
        out.printf("  %s: not enough memory for an image on the tmpfs%n", size);
      }
      ready.ifPresent(seconds -> table.add(size, Figure.SUSPEND, rawSuspend, seconds));
      table.add(size, Figure.COLD_SUSPEND, rawSuspend, cold);
      if (imageOnDisk) {
        disk(patterns.next());
      } else {
        out.printf("  %s: not enough space for an image on the disk%n", size);
      }
      patterns.verify();
    }
  }

  private Raw raw(int pid) {
    return new Raw(machine.checkpoints().cuda(), pid);
  }

  /** Measures suspend and resume, with the image of a snapshot if it fits on the disk. */
  private double rawSuspendAndResume(int pid, boolean withImage)
      throws IOException, InterruptedException {
    Raw raw = raw(pid);
    try (Scratch scratch = place.onDisk()) {
      Stopwatch whole = new Stopwatch();
      Stopwatch watch = new Stopwatch();
      raw.suspend();
      rawSuspend = watch.seconds();
      if (withImage) {
        raw.dumpAndLeave(scratch.resolve("image"));
      }
      watch = new Stopwatch();
      raw.resume();
      double resume = watch.seconds();
      rawPause = whole.seconds();
      if (withImage) {
        // So that the writes do not disturb the next measurement.
        raw.sync();
      }
      print(withImage ? "raw, snapshot" : "raw", raw);
      return resume;
    }
  }

  private OptionalDouble suspendReady(int pid, double rawResume) throws IOException {
    try (ReadyMemory memory = readyMemory()) {
      if (!memory.await(size, out)) {
        return OptionalDouble.empty();
      }
      Library library = new Library(memory.checkpoints(), pid);
      Stopwatch watch = new Stopwatch();
      library.suspend();
      double suspend = watch.seconds();
      memory.settle();
      watch = new Stopwatch();
      library.resume();
      double resume = watch.seconds();
      print("library, memory ready", library);
      table.add(size, Figure.RESUME, rawResume, resume);
      return OptionalDouble.of(suspend);
    }
  }

  private double suspendCold(int pid) {
    Library library = new Library(here, pid);
    Stopwatch watch = new Stopwatch();
    library.suspend();
    double suspend = watch.seconds();
    library.resume();
    print("library, cold", library);
    return suspend;
  }

  private void snapshot(int pid) throws IOException {
    try (Scratch scratch = place.onDisk()) {
      Library library = new Library(here, pid);
      double pause = library.snapshot(scratch.resolve("image"));
      print("library, snapshot", library);
      table.add(size, Figure.PAUSE, rawPause, pause);
    }
  }

  /** Measures with host memory that is kept ready. */
  private void tmpfs(Pattern pattern, Trip raw) throws IOException, InterruptedException {
    try (ReadyMemory memory = readyMemory()) {
      boolean unused = memory.await(size, out);
      Library library = new Library(memory.checkpoints(), (int) pattern.pid());
      Trip trip = trip(library, "library", pattern, place.onTmpfs());
      table.add(size, Figure.DUMP, raw.suspend() + raw.dump(), trip.suspend() + trip.dump());
      table.add(size, Figure.RESTORE, raw.restore(), trip.restore());
    }
  }

  private ReadyMemory readyMemory() throws IOException {
    return ReadyMemory.of(
        machine.checkpoints(), place.tmpfs(), 1, size.bytes() + place.besides(machine));
  }

  /** Measures the disk alone before and after the read of the library, since disks vary. */
  private void disk(Pattern pattern) throws IOException, InterruptedException {
    try (Scratch scratch = place.onDisk();
        DirectIo direct = new DirectIo(scratch.resolve(""), size)) {
      double written = direct.write();
      double readBefore = direct.read();
      Library library = new Library(here, (int) pattern.pid());
      Trip trip = trip(library, "library", pattern, place.onDisk());
      double read = (readBefore + direct.read()) / 2;
      table.add(size, Figure.TO_DISK, library.bytes() / written, trip.dump());
      // Only the read with its verification: the rows of the tmpfs have the other steps.
      table.add(size, Figure.FROM_DISK, library.bytes() / read, library.seconds("verify"));
    }
  }

  private Trip trip(Way way, String name, Pattern pattern, Scratch directory)
      throws IOException, InterruptedException {
    try (directory) {
      Trip trip = Trip.of(way, pattern, directory.resolve("image"));
      print(name + ", image in " + directory.resolve("").getParent(), way);
      return trip;
    }
  }

  private void print(String name, Way way) {
    out.printf("  %s: %s%n", name, way.steps());
  }
}
