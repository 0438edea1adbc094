package dev.gpuprocess.survival;

import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A process of the soak. It counts on request while it is suspended, dumped and restored, so an
 * answer may be late or a request lost; therefore only bounds of its number are known.
 */
final class SoakSubject implements AutoCloseable {

  private static final int MEBIBYTES = 1;
  private static final String RIGHT = "ok %d bytes".formatted(MEBIBYTES << 20);
  private static final String RESTORE = "restore";

  /** The ways in which processes change their memory, one for each process. */
  private static final List<String> CHANGES = List.of("shared", "fork", "keep", "clone", "map");

  private static final AtomicInteger STARTED = new AtomicInteger();
  private static final int REMEMBERED = 8;
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final Duration HASTE = Duration.ofMillis(100);

  private final Counter counter;

  /** The state directory of its controllers. */
  private final StateDirectory state;

  /** The lower bound of the number in each image. */
  private final Map<String, Integer> images = new HashMap<>();

  private int least;
  private int most;
  private int leastBefore;
  private volatile boolean killed;

  /** In this round. */
  private volatile boolean mayBreak;

  /** The last actions on it, for violations. */
  private final Deque<String> history = new ConcurrentLinkedDeque<>();

  private SoakSubject(Counter counter, StateDirectory state) {
    this.counter = counter;
    this.state = state;
    this.least = counter.increment();
    this.most = least;
    counter.churn(CHANGES.get(STARTED.getAndIncrement() % CHANGES.size()));
  }

  /**
   * Starts one.
   *
   * @param state the state directory of its controllers
   */
  static SoakSubject start(SimulatedDriver machine, Path state) {
    return new SoakSubject(
        Counter.launch(MEBIBYTES).on(machine).polling(1).start(), new StateDirectory(state));
  }

  int pid() {
    return Math.toIntExact(counter.pid());
  }

  /** Signals this process; returns false if it is gone. */
  boolean signal(int signal) {
    Optional<ProcessIdentity> there =
        ProcessIdentity.of(pid()).filter(who -> counter.isAlive() && who.isAlive());
    there.ifPresent(who -> Signals.send(who, signal));
    return there.isPresent();
  }

  /**
   * Stops it, unless it is being dumped. CRIU aborts when another process stops or continues the
   * tree, and the tree can die of that by SIGPIPE, which would look like a fault of the library.
   *
   * @return whether it was stopped
   */
  boolean stop() {
    return !isBeingDumped() && signal(Signals.STOP);
  }

  /** Continues it after {@link #stop}, when a dump that had begun before is over. */
  void goOn() {
    if (Waiting.until(PATIENCE, () -> !isBeingDumped())) {
      signal(Signals.CONTINUE);
    }
  }

  /** Called before CRIU is started. An image is not lost if its restore fails. */
  private boolean isBeingDumped() {
    return ProcFs.tracer(pid()).isPresent()
        || ProcessIdentity.of(pid())
            .flatMap(who -> ProcessLock.holderAtCriu(ProcessKey.of(who), state))
            .filter(holder -> !holder.verb().equals(RESTORE))
            .isPresent();
  }

  /** After this kill it may be restored from its images. */
  void kill() {
    if (signal(Signals.KILL)) {
      killed = true;
      tell("it is killed");
    }
  }

  /**
   * Kills the CRIU that is restoring it. A CRIU that dumps is spared: the process can die with it,
   * by SIGTRAP or SIGPIPE, which would look like a fault of the library. {@link CriuDeathsTest}
   * kills those, and checks the signal of which the process died.
   */
  boolean killCriu() {
    Optional<ProcessIdentity> criu = Signals.restoringCriuOf(pid());
    criu.ifPresent(found -> Signals.send(found, Signals.KILL));
    return criu.isPresent();
  }

  /** A call of the driver is about to fail in the process. */
  void mayBreak() {
    mayBreak = true;
    tell("it may be broken");
  }

  /** Returns whether the driver may report it as failed. */
  boolean mayBeBroken() {
    return mayBreak;
  }

  boolean wasKilled() {
    return killed;
  }

  /** Records an action on it. */
  void tell(String what) {
    history.add(Instant.now() + " " + what);
    while (history.size() > REMEMBERED) {
      history.poll();
    }
  }

  /** The last actions on it, for violations. */
  String history() {
    return history.toString();
  }

  /** Images that appear from now on have at least the present number. */
  void roundBegins() {
    leastBefore = least;
    mayBreak = false;
  }

  void imageFound(String name) {
    images.putIfAbsent(name, leastBefore);
  }

  void imageRemoved(String name) {
    images.remove(name);
  }

  /** Lets it count, if possible; returns the fault. */
  Optional<String> ask() {
    if (killed || !counter.isAlive()) {
      return Optional.empty();
    }
    most++;
    try {
      OptionalInt answer = counter.tryIncrement(HASTE);
      return answer.isPresent() ? counted(answer.getAsInt()) : Optional.empty();
    } catch (UncheckedIOException e) {
      // It is on disk.
      return Optional.empty();
    }
  }

  /**
   * It answers in the order of the requests: a request that is not counted when it answers was lost
   * in a dump.
   */
  private Optional<String> counted(int number) {
    boolean right = least < number && number <= most;
    String range = "%d to %d".formatted(least + 1, most);
    least = number;
    most = number;
    return right
        ? Optional.empty()
        : Optional.of("process %d counts %d, not %s; %s".formatted(pid(), number, range, history));
  }

  /** It was restored from an image. */
  void cameBackFrom(String image) {
    tell("it came back from " + image + " of " + images);
    if (killed) {
      least = images.getOrDefault(image, leastBefore);
    }
    killed = false;
  }

  /** It runs, and loses nothing unless it is killed again. */
  void settled() {
    killed = false;
  }

  /** Returns the fault of the running process. */
  Optional<String> fault() {
    try {
      most++;
      OptionalInt answer = counter.tryIncrement(PATIENCE);
      if (answer.isEmpty()) {
        return Optional.of("process " + pid() + " does not answer; " + history);
      }
      Optional<String> miscounted = counted(answer.getAsInt());
      String pattern = counter.verify();
      String changed = counter.churned();
      boolean right = pattern.equals(RIGHT) && changed.startsWith("ok ");
      return miscounted.isPresent() || right
          ? miscounted
          : Optional.of(
              "the pattern of process %d is %s, and what it changes %s"
                  .formatted(pid(), pattern, changed));
    } catch (UncheckedIOException | IllegalStateException e) {
      return Optional.of("process " + pid() + " does not answer: " + e.getMessage());
    }
  }

  @Override
  public void close() {
    counter.close();
  }
}
