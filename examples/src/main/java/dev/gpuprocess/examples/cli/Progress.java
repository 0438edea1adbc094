package dev.gpuprocess.examples.cli;

import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * A line on a terminal with the step under way, and where a command measures them, the bytes, the
 * rate and the time left. Prints nothing elsewhere.
 */
final class Progress implements StepListener, AutoCloseable {

  private static final long INTERVAL_MILLIS = 200;
  private static final int BAR = 20;

  private final PrintStream err;
  private final boolean shown;
  private @Nullable Thread painter;
  private @Nullable String step;
  private long began;
  private long total;
  private LongSupplier done = () -> 0;
  private int width;

  Progress(PrintStream err, boolean shown) {
    this.err = err;
    this.shown = shown;
  }

  /** Tells whether standard output is a terminal; {@code System.console} does not from JDK 22. */
  static boolean isTerminal() {
    try {
      String target = Files.readSymbolicLink(Path.of("/proc/self/fd/1")).toString();
      return target.startsWith("/dev/pts/") || target.startsWith("/dev/tty");
    } catch (IOException e) {
      return false;
    }
  }

  boolean isShown() {
    return shown;
  }

  /**
   * Sets the size of the work.
   *
   * @param total the bytes to move, 0 if unknown
   * @param done the bytes moved so far
   */
  synchronized void expect(long total, LongSupplier done) {
    this.total = total;
    this.done = done;
  }

  @Override
  public synchronized void started(String name, int pid) {
    step = name;
    began = System.nanoTime();
    if (shown && painter == null) {
      painter = new Thread(this::paintRepeatedly, "gpuprocess progress");
      painter.setDaemon(true);
      painter.start();
    }
  }

  @Override
  public synchronized void finished(Step finished) {
    step = null; // else its line would be painted again, before the result
    clear();
    String size =
        finished.bytes() == 0
            ? ""
            : "  %s  %s/s"
                .formatted(
                    Output.bytes(finished.bytes()), Output.bytes((long) finished.bytesPerSecond()));
    if (shown) {
      err.println(
          "%-14s %8s%s"
              .formatted(
                  finished.name(), Words.seconds(finished.duration().toNanos() / 1e9), size));
    }
  }

  private void paintRepeatedly() {
    while (true) {
      try {
        TimeUnit.MILLISECONDS.sleep(INTERVAL_MILLIS);
      } catch (InterruptedException closed) {
        return;
      }
      paint();
    }
  }

  /** A disk may answer late, so the bytes are measured while a step can begin and end. */
  private void paint() {
    paint(measure().getAsLong());
  }

  private synchronized LongSupplier measure() {
    return step == null ? () -> 0 : done;
  }

  private synchronized void paint(long moved) {
    if (painter == null || step == null) {
      return;
    }
    String line = line(step, (System.nanoTime() - began) / 1e9, moved, total);
    err.print("\r" + line + " ".repeat(Math.max(0, width - line.length())));
    err.flush();
    width = line.length();
  }

  /** Returns the line of a step that has moved some of its bytes. */
  static String line(String step, double seconds, long done, long total) {
    String head = String.format(Locale.ROOT, "%-14s %8s", step, Words.seconds(seconds));
    if (done <= 0 || seconds <= 0) {
      return total <= 0 ? head : head + "  of " + Output.bytes(total);
    }
    double rate = done / seconds;
    String moved = "  %s  %s/s".formatted(Output.bytes(done), Output.bytes((long) rate));
    if (total <= 0) {
      return head + moved;
    }
    long within = Math.min(done, total);
    int filled = (int) (BAR * within / total);
    return head
        + "  ["
        + "#".repeat(filled)
        + " ".repeat(BAR - filled)
        + "]"
        + moved
        + String.format(Locale.ROOT, "  %.0f s left", (total - within) / rate);
  }

  private void clear() {
    if (width > 0) {
      err.print("\r" + " ".repeat(width) + "\r");
      err.flush();
      width = 0;
    }
  }

  @Override
  public synchronized void close() {
    if (painter != null) {
      painter.interrupt();
      painter = null;
    }
    clear();
  }
}
