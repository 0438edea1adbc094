package dev.gpuprocess.examples.verification;

import dev.gpuprocess.error.GpuCheckpointException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;

/** Runs checks one after the other and prints their table at the end. */
final class Checks {

  private final PrintStream out;
  private final List<Outcome> outcomes = new ArrayList<>();

  Checks(PrintStream out) {
    this.out = out;
  }

  /** Runs a check. Its failure does not prevent the next checks. */
  void run(String what, Supplier<Outcome> body) {
    out.println();
    out.println(what);
    Outcome outcome;
    try {
      outcome = body.get();
    } catch (GpuCheckpointException | IllegalStateException e) {
      e.printStackTrace(out);
      outcome = Outcome.failed(what, String.valueOf(e.getMessage()));
    }
    outcomes.add(outcome);
  }

  /** Prints the table and returns the exit code. */
  int finish(String headline) {
    out.println();
    out.println(headline);
    outcomes.forEach(this::print);
    return outcomes.stream().anyMatch(o -> o.verdict() == Outcome.Verdict.FAILED) ? 1 : 0;
  }

  private void print(Outcome outcome) {
    String verdict = outcome.verdict().name().toLowerCase(Locale.ROOT);
    List<String> numbers = outcome.numbers().lines().toList();
    out.printf(Locale.ROOT, "  %-28s%-9s%s%n", outcome.what(), verdict, numbers.get(0));
    numbers.stream().skip(1).forEach(more -> out.println(" ".repeat(39) + more));
  }
}
