package dev.gpuprocess.examples.verification;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Progress;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.report.SnapshotTimes;
import java.io.PrintStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;

/**
 * A program that measures how long a snapshot stops a process: with its memory moved by the driver
 * and CRIU alone, and moved by this library. Every byte is compared, after the snapshot and after a
 * restore from it.
 */
public final class GpuSnapshotPause {

  private final Machine machine;
  private final int mebibytes;
  private final PrintStream out;

  /**
   * Makes a measurement.
   *
   * @param machine the machine
   * @param mebibytes the GPU memory of the process
   * @param out the stream for the steps of each snapshot
   */
  GpuSnapshotPause(Machine machine, int mebibytes, PrintStream out) {
    this.machine = machine;
    this.mebibytes = mebibytes;
    this.out = out;
  }

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
      System.out.println(machine.headline("gpu-snapshot-pause"));
      GpuSnapshotPause pauses = new GpuSnapshotPause(machine, mebibytes, System.out);
      for (String place : named.subList(1, named.size())) {
        double unused = pauses.compare(Path.of(place));
      }
    }
  }

  /**
   * Makes both snapshots and prints a line with their pauses.
   *
   * @param place a directory for the images
   * @return the pause by the library as a fraction of the other pause
   */
  double compare(Path place) {
    GpuCheckpoints checkpoints = machine.checkpoints();
    GpuCheckpoints plain = checkpoints.toBuilder().driverHook(false).build();
    SnapshotTimes alone = times(snapshot("alone", plain, place));
    SnapshotTimes helped = times(snapshot("library", checkpoints, place));
    double part = (double) helped.pause().toNanos() / alone.pause().toNanos();
    out.printf(
        Locale.ROOT,
        "snapshot %d MiB, %s: pause %.2f s by the driver and CRIU alone, %.2f s by the library (%.2f), %.2f s until it is on the disk%n",
        mebibytes,
        place,
        seconds(alone.pause()),
        seconds(helped.pause()),
        part,
        seconds(helped.whole()));
    return part;
  }

  private static SnapshotTimes times(ProcessImage image) {
    return image.snapshotTimes().orElseThrow();
  }

  private ProcessImage snapshot(String way, GpuCheckpoints checkpoints, Path place) {
    try (Pattern pattern = machine.on(Pattern.launch(mebibytes)).notOurChild().start();
        Scratch scratch = Scratch.of(place.resolve("snapshot-pause"))) {
      String before = pattern.verify();
      ProcessImage image = checkpoints.process(pattern.pid()).snapshot(scratch.resolve("image"));
      require(before, pattern);
      pattern.kill();
      image.restore().resume();
      require(before, pattern);
      out.printf("  %-8s %s%n", way, Progress.line(image.steps()));
      return image;
    }
  }

  private static void require(String before, Pattern pattern) {
    String now = pattern.verify();
    if (!before.startsWith("ok ") || !now.equals(before)) {
      throw new IllegalStateException("the GPU memory differs: " + now);
    }
  }

  private static double seconds(Duration time) {
    return time.toNanos() / 1e9;
  }
}
