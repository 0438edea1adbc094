package dev.gpuprocess.error;

import java.io.Serializable;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What is known about a CRIU that failed. Immutable.
 *
 * @param errno {@code cr_errno} of CRIU's reply; 0 when it had none or there was no reply
 * @param exit how the CRIU process ended, such as {@code exit 1} or {@code signal 11}
 * @param firstError the first error line of the log that is not known to be harmless, without
 *     timestamp and source position; else empty
 * @param errors all such lines, oldest first
 * @param log the log file, null when CRIU never opened one
 * @param logTail the last lines of the log
 * @param stderr what CRIU printed besides its log
 */
public record CriuFailure(
    int errno,
    String exit,
    String firstError,
    List<String> errors,
    @Nullable Path log,
    String logTail,
    String stderr)
    implements Serializable {

  /** For a CRIU that was not started, because it could only have failed. */
  public static final CriuFailure NOT_STARTED =
      new CriuFailure(0, "not started", "", List.of(), null, "", "");

  /** A {@link Path} cannot be serialized. */
  private record Form(
      int errno,
      String exit,
      String firstError,
      List<String> errors,
      @Nullable String log,
      String logTail,
      String stderr)
      implements Serializable {

    private Object readResolve() {
      return new CriuFailure(
          errno, exit, firstError, errors, log == null ? null : Path.of(log), logTail, stderr);
    }
  }

  private Object writeReplace() {
    return new Form(
        errno,
        exit,
        firstError,
        List.copyOf(errors),
        log == null ? null : log.toString(),
        logTail,
        stderr);
  }
}
