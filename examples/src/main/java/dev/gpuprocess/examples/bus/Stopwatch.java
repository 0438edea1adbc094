package dev.gpuprocess.examples.bus;

/** Runs from the moment at which it is made. */
final class Stopwatch {

  private final long began = System.nanoTime();

  double seconds() {
    return (System.nanoTime() - began) / 1e9;
  }
}
