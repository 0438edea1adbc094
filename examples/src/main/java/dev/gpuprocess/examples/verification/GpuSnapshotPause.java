package dev.gpuprocess.examples.verification;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.progress.SnapshotTimes;
import dev.gpuprocess.progress.Step;
import java.io.PrintStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * Measures how long a process stands still for a snapshot: as CRIU and the driver do it, handed
 * over to the disk, and handed over by way of memory. Every byte is looked at, after the snapshot
 * and after a restore from it.
 */
public final class GpuSnapshotPause {

  private final Machine machine;
  private final int mebibytes;
  private final PrintStream out;

  /**
   * Prepares; nothing is started yet.
   *
   * @param machine where
   * @param mebibytes of GPU memory
   * @param out gets the steps of each snapshot
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
   * Makes the three snapshots, and prints a line with their pauses.
   *
   * @param place a directory for the images
   * @return the pause by way of memory, in parts of the pause when CRIU's image was synced in it
   */
  double compare(Path place) {
    GpuCheckpoints checkpoints = machine.checkpoints();
    GpuCheckpoints plain = checkpoints.toBuilder().populateAhead(false).build();
    GpuCheckpoints direct = checkpoints.toBuilder().snapshotSpool(null).build();
    ProcessImage whole = snapshot("as it is", plain, false, place);
    SnapshotTimes asItIs = times(whole);
    SnapshotTimes onDisk = times(snapshot("disk", direct, true, place));
    SnapshotTimes inMemory = times(snapshot("memory", checkpoints, true, place));
    Duration synced = asItIs.pause().plus(sealing(whole));
    double part = (double) inMemory.pause().toNanos() / synced.toNanos();
    out.printf(
        Locale.ROOT,
        "snapshot %d MiB, %s: pause %.2f s with the sync in it, %.2f s without, %.2f s handed over to the disk, %.2f s by way of memory (%.2f), %.2f s until it is on the disk%n",
        mebibytes,
        place,
        seconds(synced),
        seconds(asItIs.pause()),
        seconds(onDisk.pause()),
        seconds(inMemory.pause()),
        part,
        seconds(inMemory.whole()));
    return part;
  }

  private static SnapshotTimes times(ProcessImage image) {
    return image.snapshotTimes().orElseThrow();
  }

  private static Duration sealing(ProcessImage image) {
    return image.steps().stream()
        .filter(step -> step.name().equals("seal"))
        .map(Step::duration)
        .reduce(Duration.ZERO, Duration::plus);
  }

  private ProcessImage snapshot(
      String way, GpuCheckpoints checkpoints, boolean handOver, Path place) {
    DumpOptions options = DumpOptions.builder().handOver(handOver).build();
    try (Pattern pattern = machine.on(Pattern.launch(mebibytes)).notOurChild().start();
        Scratch scratch = Scratch.of(place.resolve("snapshot-pause"))) {
      String before = pattern.verify();
      ProcessImage image =
          checkpoints.process(pattern.pid()).snapshot(scratch.resolve("image"), options);
      require(before, pattern);
      pattern.kill();
      image.restore().resume();
      require(before, pattern);
      out.printf(
          Locale.ROOT,
          "  %-8s %s%n",
          way,
          image.steps().stream().map(GpuSnapshotPause::text).collect(Collectors.joining(", ")));
      return image;
    }
  }

  private static void require(String before, Pattern pattern) {
    String now = pattern.verify();
    if (!before.startsWith("ok ") || !now.equals(before)) {
      throw new IllegalStateException("the memory is not what it was: " + now);
    }
  }

  private static String text(Step step) {
    String note = step.note().isEmpty() ? "" : " (" + step.note() + ")";
    return String.format(Locale.ROOT, "%s %.2f s%s", step.name(), seconds(step.duration()), note);
  }

  private static double seconds(Duration time) {
    return time.toNanos() / 1e9;
  }
}
