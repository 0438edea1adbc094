package dev.gpuprocess.internal.lock;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.process.ProcessKey;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Who has locked something, as it wrote it into the locked file.
 *
 * @param controller the JVM
 * @param verb what it does with it
 * @param atCriu whether CRIU is at the process, which must not be asked for its state then: it is
 *     stopped, and what a call has open in it would go into the image
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

  /** Reads what {@link #text} wrote; empty when it is something else. */
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

  /** What is told to those who have to wait for it. */
  public OperationInProgressException inProgress(String message, Failure failure) {
    return new OperationInProgressException(message, failure, verb, controllerHere());
  }

  /** The controller's pid here; empty in another pid namespace. */
  OptionalLong controllerHere() {
    return controller.namespace() == ProcessKey.self().namespace()
        ? OptionalLong.of(controller.pid())
        : OptionalLong.empty();
  }

  /** Who it is, for people of our pid namespace. */
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
