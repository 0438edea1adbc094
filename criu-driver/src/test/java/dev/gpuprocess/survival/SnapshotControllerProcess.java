package dev.gpuprocess.survival;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A running {@link SnapshotController}. A test that waits too long for it is ended by its timeout.
 */
final class SnapshotControllerProcess implements AutoCloseable {

  private static final int PATIENCE_SECONDS = 180;

  private final Process process;
  private final BufferedReader told;
  private final Writer orders;
  private final List<String> lines = new ArrayList<>();

  private SnapshotControllerProcess(Process process) {
    this.process = process;
    this.told = process.inputReader(StandardCharsets.UTF_8);
    this.orders = process.outputWriter(StandardCharsets.UTF_8);
  }

  /**
   * Starts one.
   *
   * @param by a command that executes its arguments, or nothing
   */
  static SnapshotControllerProcess start(
      List<String> by, SimulatedMachine machine, long pid, Duration interval) {
    return new SnapshotControllerProcess(
        ChildJvm.start(
            by,
            List.of(),
            SnapshotController.class,
            machine.temporary(),
            Map.of(),
            List.of(
                machine.driver.directory().toString(),
                machine.state().toString(),
                machine.images().toString(),
                Long.toString(pid),
                Long.toString(interval.toMillis()))));
  }

  /** Waits for the next image. */
  Path awaitMade() {
    return Path.of(await(SnapshotController.MADE));
  }

  /** Waits for a line with this prefix, and returns the rest. */
  String await(String beginning) {
    try {
      for (String line = told.readLine(); line != null; line = told.readLine()) {
        lines.add(line);
        if (line.startsWith(beginning)) {
          return line.substring(beginning.length());
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    throw new IllegalStateException("the controller ended: " + lines);
  }

  /** Sends a command, and waits until it is executed. */
  void order(String order) {
    try {
      orders.write(order + "\n");
      orders.flush();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    await(order);
  }

  /** Kills it after a while. */
  void kill(Duration after) throws InterruptedException {
    LockSupport.parkNanos(after.toNanos());
    process.destroyForcibly();
    awaitEnd();
  }

  /** Lets it close its snapshots and exit. */
  void end() throws InterruptedException {
    try {
      orders.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    awaitEnd();
  }

  private void awaitEnd() throws InterruptedException {
    if (!process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
      throw new IllegalStateException("the controller does not end: " + lines);
    }
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
