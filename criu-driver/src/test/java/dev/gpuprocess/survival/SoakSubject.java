package dev.gpuprocess.survival;

import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentLinkedDeque;

/**
 * A process of the soak. It is asked to count while it is moved about, and then an answer may be
 * late or a question lost; so what is known of its number is between which two it is.
 */
final class SoakSubject implements AutoCloseable {

  private static final int MEBIBYTES = 1;
  private static final String RIGHT = "ok %d bytes".formatted(MEBIBYTES << 20);
  private static final String COUNT = "inc";
  private static final int REMEMBERED = 8;
  private static final Duration HASTE = Duration.ofMillis(100);

  private final Counter counter;

  /** The least number in each image of it. */
  private final Map<String, Integer> images = new HashMap<>();

  private int least;
  private int most;
  private int leastBefore;
  private volatile boolean killed;

  /** Its CRIU was killed in the middle of a dump in this round. */
  private volatile boolean endangered;

  /** What was done to it last, for complaints. */
  private final Deque<String> history = new ConcurrentLinkedDeque<>();

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
    tell("it is killed");
    signal(Signals.KILL);
  }

  /**
   * Kills the CRIU that is at it. In the middle of a dump that can kill the process too, by SIGTRAP
   * in CRIU's own code and by SIGPIPE while its memory is read, which no client of CRIU can help;
   * then it may go back to what is in its images.
   */
  void killCriu() {
    Optional<ProcessIdentity> tracer = Signals.tracingCriuOf(pid());
    if (tracer.isPresent()) {
      endangered = true;
      tell("CRIU is killed in the middle of a dump");
    }
    tracer.or(() -> Signals.criuOf(pid())).ifPresent(criu -> Signals.send(criu, Signals.KILL));
  }

  /** Whether it may have died of what was done to it. */
  boolean mayHaveDied() {
    return killed || endangered;
  }

  /** Remembers what was done to it. */
  void tell(String what) {
    history.add(Instant.now() + " " + what);
    while (history.size() > REMEMBERED) {
      history.poll();
    }
  }

  /** Images that appear from now on have at least the number of now in them. */
  void roundBegins() {
    leastBefore = least;
    endangered = false;
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

  /**
   * The most is not made less by an answer: it may be one to an earlier question, asked from a port
   * that the kernel has given us again.
   */
  private Optional<String> counted(int number) {
    boolean wrong = number <= least || number > most;
    String range = "%d to %d".formatted(least + 1, most);
    least = number;
    most = Math.max(most, number);
    return wrong
        ? Optional.of("process %d counts %d, not %s; %s".formatted(pid(), number, range, history))
        : Optional.empty();
  }

  /** It has come back from an image. */
  void cameBackFrom(String image) {
    tell("it came back from " + image + " of " + images);
    if (mayHaveDied()) {
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
