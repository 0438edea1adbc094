package dev.gpuprocess.error;

import dev.gpuprocess.internal.text.Printable;
import org.jspecify.annotations.Nullable;

/**
 * A resource of a process that CRIU cannot dump, or only with an option. Immutable.
 *
 * @param pid the process that has it
 * @param handle how the process refers to it, such as {@code descriptor 7} or {@code mapping
 *     7f00-7f80}
 * @param name what it is, such as {@code /dev/nvidia0} or {@code tcp 10.0.0.1:22 -> 10.0.0.2:50000}
 * @param option the option with which it is dumped, such as {@code
 *     CriuOptions.tcpEstablished(true)}; null when none does
 */
public record UnsupportedResource(int pid, String handle, String name, @Nullable String option) {

  private static final int MOST_OF_NAME = 200;

  /** For messages: a long name is cut, and what could mislead in a terminal or a log is escaped. */
  @Override
  public String toString() {
    return "%s of process %s (%s)".formatted(handle, pid, Printable.of(name, MOST_OF_NAME));
  }
}
