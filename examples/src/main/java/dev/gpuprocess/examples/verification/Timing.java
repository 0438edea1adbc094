package dev.gpuprocess.examples.verification;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;

/** How long each of some calls took, as {@code suspend 1.24 s, dump 2.50 s}. */
final class Timing {

  private final List<String> texts = new ArrayList<>();
  private double last;

  /** Makes a call and notes how long it took. */
  <T> T of(String what, Supplier<T> call) {
    long began = System.nanoTime();
    T result = call.get();
    last = (System.nanoTime() - began) / 1e9;
    texts.add(String.format(Locale.ROOT, "%s %.2f s", what, last));
    return result;
  }

  /** How long the last call took, in seconds. */
  double last() {
    return last;
  }

  @Override
  public String toString() {
    return String.join(", ", texts);
  }
}
