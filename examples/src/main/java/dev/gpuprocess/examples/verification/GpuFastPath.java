package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.progress.Step;
import java.io.PrintStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * Measures how much populating ahead and handing over gain: a process with GPU memory full of a
 * known pattern goes to an image and back, as it is and helped, in turn. Every byte is looked at.
 * Prints the steps of each trip, and how many times faster the helped one was.
 */
public final class GpuFastPath {

  private final Machine machine;
  private final int mebibytes;
  private final PrintStream out;

  private GpuFastPath(Machine machine, int mebibytes, PrintStream out) {
    this.machine = machine;
    this.mebibytes = mebibytes;
    this.out = out;
  }

  /** How long a trip took, by what its user waits for. */
  private record Trip(Duration suspend, Duration dump, Duration restore) {}

  /**
   * Measures.
   *
   * @param args {@code --simulated} to try the program itself; MiB of GPU memory; directories for
   *     images
   */
  public static void main(String[] args) {
    List<String> words = List.of(args);
    boolean simulated = words.contains("--simulated");
    List<String> named = words.stream().filter(word -> !word.startsWith("--")).toList();
    int mebibytes = Integer.parseInt(named.get(0));
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      System.out.println(machine.headline("gpu-fast-path"));
      GpuFastPath paths = new GpuFastPath(machine, mebibytes, System.out);
      named.stream().skip(1).map(Path::of).forEach(paths::compare);
    }
  }

  private void compare(Path place) {
    Trip plain = trip(false, place);
    Trip helped = trip(true, place);
    out.printf(
        Locale.ROOT,
        "fast path %d MiB, %s: suspend %.1fx, dump %.1fx, restore %.1fx%n",
        mebibytes,
        place,
        ratio(plain.suspend, helped.suspend),
        ratio(plain.dump, helped.dump),
        ratio(plain.restore, helped.restore));
  }

  private static double ratio(Duration plain, Duration helped) {
    return (double) plain.toNanos() / helped.toNanos();
  }

  private Trip trip(boolean help, Path place) {
    GpuCheckpoints checkpoints = machine.checkpoints().toBuilder().populateAhead(help).build();
    DumpOptions options = DumpOptions.builder().handOver(help).build();
    try (Pattern pattern = machine.on(Pattern.launch(mebibytes)).notOurChild().start();
        Scratch scratch = Scratch.of(place.resolve("fast-path"))) {
      String before = pattern.verify();
      long began = System.nanoTime();
      CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
      long gone = System.nanoTime();
      ProcessImage image = suspended.dump(scratch.resolve("image"), options);
      long dumped = System.nanoTime();
      RunningProcess again = image.restore().resume();
      long back = System.nanoTime();
      if (!before.startsWith("ok ") || !pattern.verify().equals(before)) {
        throw new IllegalStateException("the memory is not what it was: " + pattern.verify());
      }
      out.printf(
          Locale.ROOT,
          "  %-8s %s%n",
          help ? "helped" : "as it is",
          again.steps().stream().map(GpuFastPath::text).collect(Collectors.joining(", ")));
      return new Trip(
          Duration.ofNanos(gone - began),
          Duration.ofNanos(dumped - gone),
          Duration.ofNanos(back - dumped));
    }
  }

  private static String text(Step step) {
    String note = step.note().isEmpty() ? "" : " (" + step.note() + ")";
    return String.format(
        Locale.ROOT, "%s %.2f s%s", step.name(), step.duration().toNanos() / 1e9, note);
  }
}
