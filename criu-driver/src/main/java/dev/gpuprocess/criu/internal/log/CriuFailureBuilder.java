package dev.gpuprocess.criu.internal.log;

import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.GivenUpException;
import dev.gpuprocess.criu.internal.process.Privilege;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.FileSizeLimit;
import dev.gpuprocess.internal.text.Printable;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Builds one exception from the result, the output and the log of a failed CRIU. */
public final class CriuFailureBuilder {

  private static final int EBADRQC = 56;

  private static final List<String> NO_ROOM =
      List.of("No space left on device", "Disk quota exceeded");

  /** CRIU's message when it lacks capabilities. */
  private static final String NO_RIGHTS = "needs to have the CAP_";

  private static final String RAISE =
      "raise the hard limit of the JVM (ulimit -f unlimited, LimitFSIZE=infinity of systemd)";

  private static final Pattern CAPABILITY = Pattern.compile("CAP_[A-Z_]+");

  private final String operation;
  private final String subject;
  private final int pid;
  private final CriuResult result;
  private final CriuLog log;
  private final List<String> errors;

  /**
   * Reads the log.
   *
   * @param operation the operation, such as {@code dump}
   * @param subject for the message, such as {@code dump of process 12 (sleep 100)}
   * @param pid the process, or 0 if the operation concerns none
   * @param result how the request went
   * @param logFile CRIU's log; null for none
   */
  public CriuFailureBuilder(
      String operation, String subject, int pid, CriuResult result, @Nullable Path logFile) {
    this.operation = operation;
    this.subject = subject;
    this.pid = pid;
    this.result = result;
    this.log = read(logFile);
    // CRIU prints before it opens its log.
    this.errors = new ArrayList<>(CriuLog.errorsIn(result.output()));
    this.errors.addAll(log.errors());
  }

  /** Returns the failure of a request for which CRIU could not be started. */
  public static MachineUnfitException notBegun(
      String operation, String subject, int pid, IOException cause) {
    return new MachineUnfitException(
        MachineUnfitException.Reason.NO_CRIU,
        subject + " did not begin: " + cause.getMessage(),
        Failure.of(operation, pid),
        cause);
  }

  private static CriuLog read(@Nullable Path file) {
    if (file == null) {
      return CriuLog.NONE;
    }
    try {
      return CriuLog.read(file);
    } catch (IOException e) {
      return CriuLog.unreadable(file, e);
    }
  }

  public List<String> errors() {
    return errors;
  }

  /** The task at which CRIU failed, or 0 if CRIU does not say. */
  public int blamed() {
    return log.blamed();
  }

  public Failure failure(TreeOutcome outcome) {
    return new Failure(operation, pid, null, null, result.elapsed(), null, outcome.fate());
  }

  public CriuFailure criu() {
    return new CriuFailure(
        result.errno(),
        result.exit().toString(),
        errors.isEmpty() ? "" : errors.get(0),
        List.copyOf(errors),
        log.file(),
        log.tail(),
        result.output());
  }

  /** The most specific reason that CRIU gave. */
  public String reason() {
    GivenUpException givenUp = result.givenUp();
    if (givenUp != null) {
      return givenUp.reason();
    }
    if (result.crashed()) {
      return "CRIU crashed with "
          + result.exit()
          + (errors.isEmpty() ? "" : " after " + errors.get(0));
    }
    if (!errors.isEmpty()) {
      return errors.get(0);
    }
    String message = result.reply() == null ? "" : result.reply().getCrErrmsg().strip();
    if (!message.isEmpty() && CriuLog.matters(message)) {
      return message;
    }
    if (!log.lastWarning().isEmpty()) {
      return log.lastWarning();
    }
    if (!result.output().isBlank()) {
      String[] lines = result.output().strip().split("\n");
      return lines[lines.length - 1];
    }
    return result.reply() == null
        ? "CRIU exited without a reply, " + result.exit()
        : "CRIU gave no reason";
  }

  /**
   * Builds the message, one sentence.
   *
   * @param outcome the fate of the process
   * @param reason why CRIU failed
   * @param hint the remedy; may be empty
   */
  public String message(TreeOutcome outcome, String reason, String hint) {
    return subject
        + " failed, "
        + outcome.words()
        + ": "
        + reason
        + (hint.isEmpty() ? "" : "; " + hint)
        + (log.file() == null ? "" : "; CRIU's log is " + log.file());
  }

  /**
   * The failure as a plain {@link CriuException}.
   *
   * @param outcome the fate of the process
   */
  public CriuException general(TreeOutcome outcome, @Nullable Throwable cause) {
    String hint = hint().or(this::privilegeHint).orElse("");
    return new CriuException(message(outcome, reason(), hint), failure(outcome), criu(), cause);
  }

  private Optional<String> hint() {
    return Hints.of(operation, errors);
  }

  private Optional<String> privilegeHint() {
    return result.errno() == EBADRQC && !CurrentUser.isRoot()
        ? Optional.of(
            "CRIU needs root, or CAP_CHECKPOINT_RESTORE and CAP_SYS_PTRACE: " + Privilege.CURE)
        : Optional.empty();
  }

  /**
   * Returns the failure for an exception of a listener, in time to veto the operation or too late.
   * A reason to try again later stays one.
   */
  public GpuCheckpointException thrownByListener(TreeOutcome outcome, Throwable thrown) {
    String why =
        thrown.getMessage() == null ? thrown.getClass().getSimpleName() : thrown.getMessage();
    String what =
        result.success() ? " is done but its listener failed, " : " was refused by its listener, ";
    String message = subject + what + outcome.words() + ": " + why;
    CriuException refused = new CriuException(message, failure(outcome), criu(), thrown);
    if (thrown instanceof OperationCancelledException) {
      return new OperationCancelledException(message, failure(outcome), refused);
    }
    return thrown instanceof RetryLaterException
        ? new OperationTimedOutException(message, failure(outcome), refused)
        : refused;
  }

  /**
   * The failure, if it has one of the types that are common to all operations.
   *
   * @param outcome the fate of the process
   * @param deadline the caller's deadline
   * @return empty for a failure of another type
   */
  public Optional<GpuCheckpointException> typed(TreeOutcome outcome, Duration deadline) {
    GivenUpException givenUp = result.givenUp();
    if (givenUp != null) {
      return givenUp(outcome, deadline, givenUp);
    }
    if (result.crashed()) {
      return Optional.of(
          CriuException.crashed(
              message(
                  outcome,
                  reason(),
                  result.exit().signal() == FileSizeLimit.SIGXFSZ
                      ? RAISE
                      : hint().orElse("try again, and report it to CRIU if it happens again")),
              failure(outcome),
              criu(),
              result.exit().signal()));
    }
    if (result.output().contains(NO_RIGHTS)) {
      return Optional.of(missingCapability(outcome));
    }
    if (errors.stream().anyMatch(error -> NO_ROOM.stream().anyMatch(error::contains))) {
      return Optional.of(
          new ImageException(
              ImageException.Reason.DISK_FULL,
              message(
                  outcome,
                  "no space is left for the images",
                  "free some space or choose another directory"),
              failure(outcome),
              general(outcome, null)));
    }
    return Optional.empty();
  }

  private Optional<GpuCheckpointException> givenUp(
      TreeOutcome outcome, Duration deadline, GivenUpException givenUp) {
    CriuException details = general(outcome, givenUp);
    return switch (givenUp.why()) {
      case DEADLINE ->
          Optional.of(
              new OperationTimedOutException(
                  "%s did not finish within %s; CRIU %s, %s: allow more time, or see %s"
                      .formatted(
                          subject,
                          Printable.of(deadline),
                          fateOfCriu(),
                          outcome.words(),
                          log.file() == null ? "CRIU's output" : log.file()),
                  failure(outcome),
                  details));
      case CANCELLED ->
          Optional.of(
              new OperationCancelledException(
                  subject + " was cancelled, CRIU " + fateOfCriu() + ", " + outcome.words(),
                  failure(outcome),
                  details));
      case MISBEHAVIOUR -> Optional.empty();
    };
  }

  private String fateOfCriu() {
    if (result.exit().equals(ExitStatus.SPARED)) {
      return "(process %s) could not be killed without killing the process, and aborts at its next step"
          .formatted(result.criu());
    }
    return result.exit().equals(ExitStatus.STILL_RUNS)
        ? "%s belongs to another user, could not be ended, and is refused at its next step"
            .formatted(result.criu() == 0 ? "" : "(process " + result.criu() + ")")
            .strip()
        : "was ended";
  }

  private CriuException missingCapability(TreeOutcome outcome) {
    Set<String> names = new TreeSet<>();
    Matcher capability = CAPABILITY.matcher(result.output());
    while (capability.find()) {
      names.add(capability.group());
    }
    return CriuException.missingCapability(
        message(
            outcome,
            "CRIU lacks all of " + String.join(", ", names),
            "run as root, or give it one of these; or " + Privilege.CURE),
        failure(outcome),
        criu(),
        names);
  }

  /** The failure, with the type that {@link #typed} finds or else as a {@link CriuException}. */
  public GpuCheckpointException exception(TreeOutcome outcome, Duration deadline) {
    return typed(outcome, deadline).orElseGet(() -> general(outcome, result.givenUp()));
  }
}
