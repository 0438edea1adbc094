package dev.gpuprocess.internal.state;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.linux.ProcessKey;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The holder of a lock, as written in the lock's file. Immutable.
 *
 * @param controller the JVM
 * @param verb the verb it runs
 * @param since when the verb took the lock, to the millisecond
 * @param atCriu whether CRIU is working on the process. Its state must not be read then: the
 *     process is stopped, and files that a driver call opens in it would become part of the image
 */
public record LockHolder(ProcessKey controller, String verb, Instant since, boolean atCriu) {

  private static final String AT_CRIU = " +criu";

  /** Returns this JVM, with a verb that begins now. */
  static LockHolder self(String verb) {
    return new LockHolder(
        ProcessKey.self(), verb, Instant.now().truncatedTo(ChronoUnit.MILLIS), false);
  }

  /** Returns this holder after CRIU has begun or ended its work on the process. */
  LockHolder atCriu(boolean now) {
    return new LockHolder(controller, verb, since, now);
  }

  String text() {
    return "%s %s %s %s %s"
        .formatted(
            Long.toString(controller.namespace()),
            Integer.toString(controller.pid()),
            Long.toString(controller.startTicks()),
            Long.toString(since.toEpochMilli()),
            verb.replaceAll("\\s+", " ") + (atCriu ? AT_CRIU : ""));
  }

  /** Parses what {@link #text} returned; empty for anything else. */
  static Optional<LockHolder> parse(String text) {
    String[] words = text.split(" ", 5);
    if (words.length < 5) {
      return Optional.empty();
    }
    boolean atCriu = words[4].endsWith(AT_CRIU);
    try {
      return Optional.of(
          new LockHolder(
              ProcessKey.parse(words[0], words[1], words[2]),
              atCriu ? words[4].substring(0, words[4].length() - AT_CRIU.length()) : words[4],
              Instant.ofEpochMilli(Long.parseLong(words[3])),
              atCriu));
    } catch (NumberFormatException notOurs) {
      return Optional.empty();
    }
  }

  /**
   * Creates the exception for a caller that has to wait for the holder.
   *
   * @param pid the process that the holder works on
   * @param advice what the caller can do, for the end of the message
   */
  public OperationInProgressException inProgress(long pid, String advice, Failure failure) {
    return new OperationInProgressException(
        "process %s is in the middle of %s by %s since %s: %s"
            .formatted(Long.toString(pid), verb, this, since, advice),
        failure,
        verb,
        controllerHere(),
        since);
  }

  /** Returns the controller's pid; empty if it is in another pid namespace. */
  OptionalLong controllerHere() {
    return controller.namespace() == ProcessKey.self().namespace()
        ? OptionalLong.of(controller.pid())
        : OptionalLong.empty();
  }

  /** Returns the holder in words, for readers in our pid namespace. */
  @Override
  public String toString() {
    ProcessKey self = ProcessKey.self();
    if (controller.equals(self)) {
      return "this JVM (pid %s)".formatted(Integer.toString(self.pid()));
    }
    return controller.namespace() == self.namespace()
        ? "the controller with pid " + controller.pid()
        : "a controller with pid %s in another pid namespace (%s)"
            .formatted(Integer.toString(controller.pid()), Long.toString(controller.namespace()));
  }
}
