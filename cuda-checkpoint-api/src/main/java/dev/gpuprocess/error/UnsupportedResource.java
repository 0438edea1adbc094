package dev.gpuprocess.error;

import dev.gpuprocess.internal.text.Printable;
import org.jspecify.annotations.Nullable;

/**
 * Something that a process has and that CRIU does not dump, or only when told to.
 *
 * @param pid who has it
 * @param handle by what it has it, such as {@code descriptor 7} or {@code mapping 7f00-7f80}
 * @param name what is behind it, such as {@code /dev/nvidia0} or {@code tcp 10.0.0.1:22 ->
 *     10.0.0.2:50000}
 * @param option the option that allows it, such as {@code DumpOptions.tcpEstablished(true)}; null
 *     when none does
 */
public record UnsupportedResource(int pid, String handle, String name, @Nullable String option) {

  private static final int MOST_OF_NAME = 200;

  /** For people: what could be mistaken in a terminal or a log is escaped, a long name cut. */
  @Override
  public String toString() {
    return "%s of process %s (%s)".formatted(handle, pid, Printable.of(name, MOST_OF_NAME));
  }
}
