package dev.gpuprocess.survival;

import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.UncheckedIOException;
import java.util.Optional;

/**
 * The process under test. It has a number in GPU memory, and a pattern, so that its continuation
 * and every byte can be checked.
 */
final class Subject implements AutoCloseable {

  private static final int MEBIBYTES = 1;
  private static final String RIGHT = "ok %d bytes".formatted(MEBIBYTES << 20);

  private final Counter counter;
  private final int first;
  private int number;

  private Subject(Counter counter) {
    this.counter = counter;
    this.first = counter.increment();
    this.number = first;
  }

  static Subject start(SimulatedDriver machine) {
    return new Subject(Counter.launch(MEBIBYTES).on(machine).polling(1).notOurChild().start());
  }

  int pid() {
    return Math.toIntExact(counter.pid());
  }

  boolean isAlive() {
    return counter.isAlive();
  }

  /** Returns the process: a restore from an image keeps the pid, not the start time. */
  Optional<ProcessIdentity> identity() {
    return ProcessIdentity.of(pid()).filter(who -> who.isAlive() && counter.isAlive());
  }

  /** Checks that it continues; returns the fault. */
  Optional<String> fault() {
    try {
      int next = counter.increment();
      number++;
      if (next != number) {
        return Optional.of("it counts " + next + " instead of " + number);
      }
      String pattern = counter.verify();
      return pattern.equals(RIGHT) ? Optional.empty() : Optional.of("its pattern is " + pattern);
    } catch (UncheckedIOException | IllegalStateException e) {
      return Optional.of("it does not answer: " + e.getMessage());
    }
  }

  /**
   * Checks a process restored from an earlier image: it continues from then, and did not restart.
   */
  Optional<String> faultOfEarlier() {
    int before = number;
    try {
      number = counter.increment();
    } catch (UncheckedIOException | IllegalStateException e) {
      return Optional.of("it does not answer: " + e.getMessage());
    }
    return number > before + 1 || number <= first
        ? Optional.of("it had counted %s, and counts %s".formatted(before, number))
        : fault();
  }

  @Override
  public void close() {
    // A stopped process dies of SIGKILL too.
    counter.close();
  }
}
