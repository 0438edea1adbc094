package dev.gpuprocess.survival;

import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * A process of the soak. It is asked to count while it is moved about, and then an answer may be
 * late or a question lost; so what is known of its number is between which two it is.
 */
final class SoakSubject implements AutoCloseable {

  private static final int MEBIBYTES = 1;
  private static final String RIGHT = "ok %d bytes".formatted(MEBIBYTES << 20);
  private static final String COUNT = "inc";
  private static final Duration HASTE = Duration.ofMillis(100);

  private final Counter counter;

  /** The least number in each image of it. */
  private final Map<String, Integer> images = new HashMap<>();

  private int least;
  private int most;
  private int leastBefore;
  private volatile boolean killed;

  private SoakSubject(Counter counter) {
    this.counter = counter;
    this.least = counter.increment();
    this.most = least;
  }

  static SoakSubject start(SimulatedDriver machine) {
    return new SoakSubject(Counter.launch(MEBIBYTES).on(machine).start());
  }

  int pid() {
    return Math.toIntExact(counter.pid());
  }

  /** Signals this process and no other. */
  void signal(int signal) {
    ProcessIdentity.of(pid())
        .filter(who -> counter.isAlive())
        .ifPresent(who -> Signals.send(who, signal));
  }

  /** It may go back to what is in its images after this. */
  void kill() {
    killed = true;
    signal(Signals.KILL);
  }

  boolean wasKilled() {
    return killed;
  }

  /** Images that appear from now on have at least the number of now in them. */
  void roundBegins() {
    leastBefore = least;
  }

  void imageFound(String name) {
    images.putIfAbsent(name, leastBefore);
  }

  void imageRemoved(String name) {
    images.remove(name);
  }

  /** Lets it count, if it can just now; empty if that was right. */
  Optional<String> ask() {
    if (killed || !counter.isAlive()) {
      return Optional.empty();
    }
    most++;
    try {
      return counter
          .tryAsk(COUNT, HASTE)
          // It just went to disk, and the kernel gave us its port to ask from.
          .filter(answer -> !answer.equals(COUNT))
          .flatMap(answer -> counted(Integer.parseInt(answer)));
    } catch (UncheckedIOException e) {
      // It is on disk.
      return Optional.empty();
    }
  }

  private Optional<String> counted(int number) {
    if (number <= least || number > most) {
      return Optional.of(
          "process %d counts %d, not %d to %d".formatted(pid(), number, least + 1, most));
    }
    least = number;
    most = number;
    return Optional.empty();
  }

  /** It has come back from an image. */
  void cameBackFrom(String image) {
    if (killed) {
      least = images.getOrDefault(image, leastBefore);
      killed = false;
    }
  }

  /** What is wrong with it now that it runs; empty if nothing. */
  Optional<String> fault() {
    try {
      most++;
      Optional<String> miscounted = counted(counter.increment());
      String pattern = counter.verify();
      return miscounted.isPresent() || pattern.equals(RIGHT)
          ? miscounted
          : Optional.of("the pattern of process %d is %s".formatted(pid(), pattern));
    } catch (UncheckedIOException | IllegalStateException e) {
      return Optional.of("process " + pid() + " does not answer: " + e.getMessage());
    }
  }

  @Override
  public void close() {
    counter.close();
  }
}
