package dev.gpuprocess.examples.bus;

/** A stopwatch that runs from its construction. */
final class Stopwatch {

  private final long began = System.nanoTime();

  double seconds() {
    return (System.nanoTime() - began) / 1e9;
  }
}
