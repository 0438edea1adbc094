package dev.gpuprocess.survival;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** The number of verbs of the threads of a controller, and their violations. */
final class ControllerReport {

  private final AtomicInteger done = new AtomicInteger();
  private final AtomicInteger refused = new AtomicInteger();
  private final List<Violation> violations = new ArrayList<>();

  /** Counts a verb, or a sequence of verbs, that succeeded. */
  void done() {
    done.incrementAndGet();
  }

  /** Counts a verb that failed with an exception of the library. */
  void refused() {
    refused.incrementAndGet();
  }

  /** Returns the number since the last call. */
  int takeDone() {
    return done.getAndSet(0);
  }

  /** Returns the number since the last call. */
  int takeRefused() {
    return refused.getAndSet(0);
  }

  synchronized void addViolation(Violation violation) {
    violations.add(violation);
  }

  void addViolation(Violation.Kind kind, String text) {
    addViolation(new Violation(kind, text));
  }

  /** Returns the violations since the last call. */
  synchronized List<Violation> takeViolations() {
    List<Violation> taken = List.copyOf(violations);
    violations.clear();
    return taken;
  }
}
