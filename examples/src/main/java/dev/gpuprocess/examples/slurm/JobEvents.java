package dev.gpuprocess.examples.slurm;

import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The signals that Slurm sends to a job, and the end of its command, in their order. */
public final class JobEvents {

  private static final List<String> SIGNALS = List.of("USR1", "TERM");

  private final BlockingQueue<Event> queue = new LinkedBlockingQueue<>();

  /** What a job waits for. */
  sealed interface Event permits Signalled, Ended {}

  /**
   * A signal to this process.
   *
   * @param name of the signal, without SIG
   * @param nanos when it came, by {@link System#nanoTime()}
   */
  record Signalled(String name, long nanos) implements Event {}

  /** The command has ended, or is in an image. */
  record Ended() implements Event {}

  /**
   * Takes SIGUSR1 and SIGTERM from here on, which would end this JVM otherwise.
   *
   * @return the events
   * @throws IllegalStateException if this JVM has no signals
   */
  public static JobEvents ofThisProcess() {
    JobEvents events = new JobEvents();
    for (String name : SIGNALS) {
      handle(name, events);
    }
    return events;
  }

  /** Java's only interface for signals; javac refuses its name in the source. */
  private static void handle(String name, JobEvents events) {
    try {
      Class<?> type = Class.forName("sun.misc.Signal");
      Class<?> handler = Class.forName("sun.misc.SignalHandler");
      Object taken =
          Proxy.newProxyInstance(
              JobEvents.class.getClassLoader(),
              new Class<?>[] {handler},
              (proxy, method, arguments) -> {
                events.signalled(name);
                return null;
              });
      Object signal = type.getConstructor(String.class).newInstance(name);
      Object unused = type.getMethod("handle", type, handler).invoke(null, signal, taken);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("SIG%s cannot be taken: %s".formatted(name, e), e);
    }
  }

  void signalled(String name) {
    queue.add(new Signalled(name, System.nanoTime()));
  }

  void ended() {
    queue.add(new Ended());
  }

  /** Returns the next event; empty if none comes within the time. */
  Optional<Event> await(Duration limit) throws InterruptedException {
    return Optional.ofNullable(queue.poll(limit.toNanos(), TimeUnit.NANOSECONDS));
  }

  /** Whether a signal has come that was not taken yet. */
  boolean isSignalled() {
    return queue.stream().anyMatch(Signalled.class::isInstance);
  }

  /** Returns whether SIGTERM came or comes within the time; earlier events are dropped. */
  boolean awaitTerm(Duration limit) throws InterruptedException {
    long end = System.nanoTime() + limit.toNanos();
    while (true) {
      Optional<Event> event = await(Duration.ofNanos(end - System.nanoTime()));
      if (event.isEmpty()) {
        return false;
      }
      if (event.get() instanceof Signalled signal && signal.name().equals("TERM")) {
        return true;
      }
    }
  }
}
