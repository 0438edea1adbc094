package dev.gpuprocess.examples.demo;

import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.PrintStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A listener that prints each step: its name when it begins, its figures when it ends. A nested
 * step is indented. Only one verb at a time may use it.
 */
public final class Progress implements StepListener {

  private static final double MIB = 1 << 20;

  /** The steps in which the driver moves GPU memory. */
  private static final Set<String> DRIVER_STEPS =
      Set.of("checkpoint", "restore", "suspend", "resume");

  private final PrintStream out;
  private final boolean simulated;

  /** A row for each step, in the order in which the steps began. */
  private final List<String> rows = new ArrayList<>();

  /** The rows of the steps under way, innermost first. */
  private final Deque<Integer> open = new ArrayDeque<>();

  private boolean inLine;

  /**
   * Prints the steps of a machine.
   *
   * @param out the stream to print to
   * @param machine the machine; the speed of simulated GPU memory is not printed
   */
  public Progress(PrintStream out, Machine machine) {
    this.out = out;
    this.simulated = machine.isSimulated();
  }

  @Override
  public void started(String name, int pid) {
    endLine();
    open.push(rows.size());
    rows.add(label(name));
    out.print(label(name));
    out.flush();
    inLine = true;
  }

  @Override
  public void finished(Step step) {
    end(step.name(), figures(step, " ms", " MiB", " GB/s"), figures(step, "", "", ""));
  }

  @Override
  public void failed(String name, int pid, RuntimeException failure) {
    end(name, "    failed", "    failed");
  }

  private void end(String name, String line, String row) {
    out.println(inLine ? line : label(name) + line);
    inLine = false;
    rows.set(open.peek(), label(name) + row);
    open.pop();
  }

  /** Prints a line that is not a step. */
  public void print(String what, String text) {
    endLine();
    out.println(label(what) + "  " + text);
  }

  /** Returns a head line and the steps, for the end of a log. */
  public List<String> table() {
    List<String> lines = new ArrayList<>();
    lines.add(String.format(Locale.ROOT, "  %-16s%10s%10s%8s", "step", "ms", "MiB", "GB/s"));
    lines.addAll(rows);
    return lines;
  }

  /** Returns steps in one line, with their seconds and notes. */
  public static String line(List<Step> steps) {
    return steps.stream().map(Progress::text).collect(Collectors.joining(", "));
  }

  private static String text(Step step) {
    String note = step.note().isEmpty() ? "" : " (" + step.note() + ")";
    return String.format(
        Locale.ROOT, "%s %.2f s%s", step.name(), step.duration().toNanos() / 1e9, note);
  }

  private String label(String name) {
    return String.format(Locale.ROOT, "  %-16s", "  ".repeat(Math.max(0, open.size() - 1)) + name);
  }

  private String figures(Step step, String ms, String mib, String rate) {
    String time = String.format(Locale.ROOT, "%10.1f%s", step.duration().toNanos() / 1e6, ms);
    if (step.bytes() == 0) {
      return time;
    }
    String size = time + String.format(Locale.ROOT, "%10.1f%s", step.bytes() / MIB, mib);
    // The speed of a few kilobytes is meaningless.
    return step.bytes() < MIB || (simulated && DRIVER_STEPS.contains(step.name()))
        ? size
        : size + String.format(Locale.ROOT, "%8.2f%s", step.bytesPerSecond() / 1e9, rate);
  }

  private void endLine() {
    if (inLine) {
      out.println();
      inLine = false;
    }
  }
}
