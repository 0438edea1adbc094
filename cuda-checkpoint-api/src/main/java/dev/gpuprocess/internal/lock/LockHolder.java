package dev.gpuprocess.internal.lock;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.process.ProcessKey;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Who holds a lock, as written in the lock's file. Immutable.
 *
 * @param controller the JVM
 * @param verb the verb it runs
 * @param atCriu whether CRIU is working on the process. Its state must not be read then: the
 *     process is stopped, and what a driver call has open in it would become part of the image
 */
public record LockHolder(ProcessKey controller, String verb, boolean atCriu) {

  private static final String AT_CRIU = " +criu";

  static LockHolder self(String verb) {
    return self(verb, false);
  }

  static LockHolder self(String verb, boolean atCriu) {
    return new LockHolder(ProcessKey.self(), verb, atCriu);
  }

  String text() {
    return "%s %s %s %s"
        .formatted(
            Long.toString(controller.namespace()),
            Integer.toString(controller.pid()),
            Long.toString(controller.startTicks()),
            verb.replaceAll("\\s+", " ") + (atCriu ? AT_CRIU : ""));
  }

  /** Parses what {@link #text} returned; empty for anything else. */
  static Optional<LockHolder> parse(String text) {
    String[] words = text.split(" ", 4);
    if (words.length < 4) {
      return Optional.empty();
    }
    boolean atCriu = words[3].endsWith(AT_CRIU);
    try {
      return Optional.of(
          new LockHolder(
              new ProcessKey(
                  Long.parseLong(words[0]), Integer.parseInt(words[1]), Long.parseLong(words[2])),
              atCriu ? words[3].substring(0, words[3].length() - AT_CRIU.length()) : words[3],
              atCriu));
    } catch (NumberFormatException notOurs) {
      return Optional.empty();
    }
  }

  /** The exception for those that have to wait for the holder. */
  public OperationInProgressException inProgress(String message, Failure failure) {
    return new OperationInProgressException(message, failure, verb, controllerHere());
  }

  /** The controller's pid; empty when it is in another pid namespace. */
  OptionalLong controllerHere() {
    return controller.namespace() == ProcessKey.self().namespace()
        ? OptionalLong.of(controller.pid())
        : OptionalLong.empty();
  }

  /** The holder in words, for readers in our pid namespace. */
  @Override
  public String toString() {
    ProcessKey self = ProcessKey.self();
    if (controller.equals(self)) {
      return "another part of this JVM";
    }
    return controller.namespace() == self.namespace()
        ? "the controller with pid " + controller.pid()
        : "a controller with pid %s in another pid namespace (%s)"
            .formatted(Integer.toString(controller.pid()), Long.toString(controller.namespace()));
  }
}
