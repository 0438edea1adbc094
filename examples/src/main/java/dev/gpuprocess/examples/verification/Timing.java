package dev.gpuprocess.examples.verification;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;

/** The durations of some calls, printed as {@code suspend 1.24 s, dump 2.50 s}. */
final class Timing {

  private final List<String> texts = new ArrayList<>();
  private double last;

  /** Makes a call and records its duration. */
  <T> T of(String what, Supplier<T> call) {
    long began = System.nanoTime();
    T result = call.get();
    last = (System.nanoTime() - began) / 1e9;
    texts.add(String.format(Locale.ROOT, "%s %.2f s", what, last));
    return result;
  }

  /** Returns the duration of the last call, in seconds. */
  double last() {
    return last;
  }

  @Override
  public String toString() {
    return String.join(", ", texts);
  }
}
