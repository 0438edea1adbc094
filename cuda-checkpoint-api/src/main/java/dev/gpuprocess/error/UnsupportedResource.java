package dev.gpuprocess.error;

import dev.gpuprocess.internal.text.Printable;
import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * A resource of a process that CRIU cannot dump, or only with an option. Immutable.
 *
 * @param kind what it is
 * @param pid the process that has it
 * @param handle how the process refers to it, such as {@code descriptor 7} or {@code mapping
 *     7f00-7f80}
 * @param name what it is, such as {@code /dev/nvidia0} or {@code tcp 10.0.0.1:22 -> 10.0.0.2:50000}
 * @param option the call that sets the option with which it is dumped, such as {@code
 *     CriuOptions.set("tcp-established")}; null when none does
 */
public record UnsupportedResource(
    Kind kind, int pid, String handle, String name, @Nullable String option)
    implements Serializable {

  /** The kinds of resources that CRIU tells apart when it refuses one. */
  public enum Kind {
    /** A connected TCP socket. */
    TCP_CONNECTION,
    /** A listening TCP socket with connections that were not accepted. */
    TCP_LISTENER,
    /** A connected UNIX socket whose other end is outside the tree. */
    UNIX_SOCKET,
    /** A pipe whose other end is outside the tree. */
    PIPE,
    /** A locked file. */
    FILE_LOCK,
    /** A file without a name. */
    REMOVED_FILE,
    /** A file whose name was removed while it has another. */
    RENAMED_FILE,
    /** A terminal whose other end is outside the tree. */
    TERMINAL,
    /** A session whose leader is outside the pid namespace. */
    SESSION,
    /** A memory mapping. */
    MAPPING,
    /** System V shared memory. */
    SYSTEM_V_MEMORY,
    /** An io_uring. */
    IO_URING,
    /** Another resource, which the handle and the name describe. */
    OTHER
  }

  private static final int MOST_OF_NAME = 200;

  /** Makes one of no special kind. */
  public UnsupportedResource(int pid, String handle, String name, @Nullable String option) {
    this(Kind.OTHER, pid, handle, name, option);
  }

  /** For messages: a long name is cut, and what could mislead in a terminal or a log is escaped. */
  @Override
  public String toString() {
    return "%s of process %s (%s)".formatted(handle, pid, Printable.of(name, MOST_OF_NAME));
  }
}
