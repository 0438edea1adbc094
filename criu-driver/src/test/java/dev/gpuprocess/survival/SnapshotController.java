package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.SnapshotListener;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.criu.Hoard;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.report.SkippedSnapshot;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Makes snapshots from time to time in a JVM of its own, until its input ends or it is killed. It
 * reports each in a line, and executes the commands of its input.
 */
final class SnapshotController {

  static final String MADE = "made ";
  static final String FAILED = "failed ";
  static final String PRUNE_FAILED = "prune failed ";

  /** A command: after the next image the controller has no free descriptors. */
  static final String STARVE = "starve";

  /** A command: the controller has free descriptors again. */
  static final String FEED = "feed";

  static final int KEPT = 3;

  private SnapshotController() {}

  /**
   * Runs.
   *
   * @param args machine, state directory, store, pid, milliseconds from one to the next, process or
   *     job
   * @throws Exception when it cannot work
   */
  public static void main(String[] args) throws Exception {
    GpuCheckpoints checkpoints =
        SimulatedMachine.checkpoints(Path.of(args[0]), Path.of(args[1]), new FaultPoints());
    AtomicBoolean starving = new AtomicBoolean();
    AtomicReference<Hoard> hoard = new AtomicReference<>();
    SnapshotListener telling =
        new SnapshotListener() {
          @Override
          public void made(ProcessImage image) {
            if (starving.getAndSet(false)) {
              hoard.set(new Hoard(0));
            }
            say(MADE + image.directory());
          }

          @Override
          public void failed(Throwable why) {
            say(FAILED + why);
          }

          @Override
          public void skipped(SkippedSnapshot skipped) {
            say("skipped " + skipped.message());
          }

          @Override
          public void pruneFailed(Throwable why) {
            say(PRUNE_FAILED + why);
          }
        };
    SnapshotPlan plan =
        SnapshotPlan.into(checkpoints.store(Path.of(args[2])))
            .every(Duration.ofMillis(Long.parseLong(args[4])))
            .retention(RetentionPolicy.builder().keepLast(KEPT).build())
            .listener(telling)
            .build();
    int pid = Integer.parseInt(args[3]);
    try (RepeatedSnapshots snapshots = checkpoints.process(pid).repeatSnapshots(plan);
        BufferedReader orders =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      say(snapshots.toString());
      for (String order = orders.readLine(); order != null; order = orders.readLine()) {
        if (order.equals(STARVE)) {
          Hoard.loadClasses(SnapshotController.class.getClassLoader());
        } else if (order.equals(FEED)) {
          hoard.get().close();
        }
        say(order);
        if (order.equals(STARVE)) {
          starving.set(true); // the next line is then about the starved one
        }
      }
    }
  }

  private static synchronized void say(String line) {
    System.out.println(line);
  }
}
