package dev.gpuprocess.examples.slot;

import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.OptionalInt;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A counter that is kept busy by a thread, and judges by its number and its pattern whether it
 * continued where it was.
 */
final class Turner implements AutoCloseable {

  private static final int FIRST = 100;
  private static final Duration PATIENCE = Duration.ofSeconds(1);
  private static final Duration PAUSE = Duration.ofMillis(5);

  private final Counter counter;
  private final int gpu;
  private final Thread thread;
  private volatile boolean closed;
  private final AtomicInteger sent = new AtomicInteger();
  private final AtomicInteger answered = new AtomicInteger();
  private volatile int largest = FIRST;
  private volatile String fault = "";

  Turner(Counter counter, int gpu) {
    this.counter = counter;
    this.gpu = gpu;
    this.thread = new Thread(this::increment, "increments of " + counter.pid());
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  long pid() {
    return counter.pid();
  }

  int gpu() {
    return gpu;
  }

  private void increment() {
    while (!closed) {
      sent.incrementAndGet();
      try {
        OptionalInt number = counter.tryIncrement(PATIENCE);
        if (number.isPresent()) {
          answered.incrementAndGet();
          if (number.getAsInt() <= largest) {
            fault = "answered %s after %s".formatted(number.getAsInt(), largest);
          }
          largest = number.getAsInt();
        }
      } catch (UncheckedIOException onDisk) {
        // Nothing listens while the process is on disk. The last datagram may have been taken.
        boolean unused = Await.until(PAUSE, () -> closed);
      }
      boolean unused = Await.until(PAUSE, () -> closed);
    }
  }

  /** Returns how often it has counted. */
  int work() {
    return largest - FIRST;
  }

  /** Begins no further increment. */
  void stop() {
    closed = true;
  }

  /** Waits for the last increment. */
  @Override
  public void close() {
    stop();
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Returns what is wrong with the process, which runs; empty if nothing is. */
  String verdict() {
    if (!counter.isAlive()) {
      return "has ended";
    }
    int value = counter.value() - FIRST;
    String pattern = counter.verify();
    if (!fault.isEmpty()) {
      return fault;
    }
    if (value < answered.get() || value > sent.get()) {
      return "has counted to %s after %s increments, of which %s were answered"
          .formatted(value, sent, answered);
    }
    return pattern.startsWith("ok ") ? "" : "has a pattern that is " + pattern;
  }
}
