package dev.gpuprocess.criu.internal.log;

import dev.gpuprocess.criu.internal.os.ExitStatus;
import dev.gpuprocess.criu.internal.os.Posix;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.GivenUpException;
import dev.gpuprocess.criu.internal.process.Privilege;
import dev.gpuprocess.error.CriuCrashedException;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.MissingCapabilityException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
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

/** Turns what a failed CRIU left behind into one exception. */
public final class CriuFailureBuilder {

  private static final int EBADRQC = 56;
  private static final List<String> NO_ROOM =
      List.of("No space left on device", "Disk quota exceeded");

  /** What CRIU prints when it may not do its work. */
  private static final String NO_RIGHTS = "needs to have the CAP_";

  private static final Pattern CAPABILITY = Pattern.compile("CAP_[A-Z_]+");

  private final String operation;
  private final String subject;
  private final int pid;
  private final CriuResult outcome;
  private final CriuLog log;
  private final List<String> errors;

  /**
   * Reads the log.
   *
   * @param operation the verb
   * @param subject for the message, such as {@code dump of process 12 (sleep 100)}
   * @param pid the process, 0 when none is concerned
   * @param outcome what CRIU answered
   * @param logFile CRIU's log, null when it has none
   */
  public CriuFailureBuilder(
      String operation, String subject, int pid, CriuResult outcome, @Nullable Path logFile) {
    this.operation = operation;
    this.subject = subject;
    this.pid = pid;
    this.outcome = outcome;
    this.log = read(logFile);
    // What is printed comes before what is logged.
    this.errors = new ArrayList<>(CriuLog.errorsIn(outcome.output()));
    this.errors.addAll(log.errors());
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

  /** The task that CRIU failed at, as far as it says; 0 when it does not. */
  public int blamed() {
    return log.blamed();
  }

  public Failure failure(TreeOutcome ending) {
    return new Failure(operation, pid, null, null, outcome.elapsed(), null, ending.fate());
  }

  public CriuFailure criu() {
    return new CriuFailure(
        outcome.errno(),
        outcome.exit().toString(),
        errors.isEmpty() ? "" : errors.get(0),
        List.copyOf(errors),
        log.file(),
        log.tail(),
        outcome.output());
  }

  /** CRIU's reason, as well as it can be known. */
  public String reason() {
    GivenUpException givenUp = outcome.givenUp();
    if (givenUp != null) {
      return givenUp.reason();
    }
    if (outcome.crashed()) {
      return "CRIU crashed with "
          + outcome.exit()
          + (errors.isEmpty() ? "" : " after " + errors.get(0));
    }
    if (!errors.isEmpty()) {
      return errors.get(0);
    }
    String message = outcome.reply() == null ? "" : outcome.reply().getCrErrmsg().strip();
    if (!message.isEmpty() && CriuLog.matters(message)) {
      return message;
    }
    if (!log.lastWarning().isEmpty()) {
      return log.lastWarning();
    }
    if (!outcome.output().isBlank()) {
      String[] lines = outcome.output().strip().split("\n");
      return lines[lines.length - 1];
    }
    return outcome.reply() == null
        ? "CRIU ended without an answer, " + outcome.exit()
        : "CRIU gave no reason";
  }

  /**
   * One sentence.
   *
   * @param ending what became of the process
   * @param reason what CRIU failed at
   * @param hint what to do; empty for nothing
   */
  public String message(TreeOutcome ending, String reason, String hint) {
    return subject
        + " failed, "
        + ending.words()
        + ": "
        + reason
        + (hint.isEmpty() ? "" : "; " + hint)
        + (log.file() == null ? "" : "; CRIU's log is " + log.file());
  }

  /**
   * The failure without a type of its own.
   *
   * @param ending what became of the process
   */
  public CriuException general(TreeOutcome ending, @Nullable Throwable cause) {
    String hint = hint().or(this::privilegeHint).orElse("");
    return new CriuException(message(ending, reason(), hint), failure(ending), criu(), cause);
  }

  private Optional<String> hint() {
    return Hints.of(operation, String.join("\n", errors));
  }

  private Optional<String> privilegeHint() {
    return outcome.errno() == EBADRQC && !Posix.isRoot()
        ? Optional.of(
            "CRIU needs root, or CAP_CHECKPOINT_RESTORE and CAP_SYS_PTRACE: " + Privilege.CURE)
        : Optional.empty();
  }

  /** The failure that a listener brought about, in time for a veto or too late. */
  public CriuException thrownByListener(TreeOutcome ending, Throwable thrown) {
    String why =
        thrown.getMessage() == null ? thrown.getClass().getSimpleName() : thrown.getMessage();
    String what =
        outcome.success() ? " is done but its listener failed, " : " was refused by its listener, ";
    return new CriuException(
        subject + what + ending.words() + ": " + why, failure(ending), criu(), thrown);
  }

  /**
   * What is common to all operations.
   *
   * @param ending what became of the process
   * @param deadline what the caller allowed
   * @return empty when the failure has no type of its own
   */
  public Optional<GpuCheckpointException> typed(TreeOutcome ending, Duration deadline) {
    GivenUpException givenUp = outcome.givenUp();
    if (givenUp != null) {
      return givenUp(ending, deadline, givenUp);
    }
    if (outcome.crashed()) {
      return Optional.of(
          new CriuCrashedException(
              message(
                  ending,
                  reason(),
                  hint().orElse("try again, and report it to CRIU if it happens again")),
              failure(ending),
              criu(),
              outcome.exit().signal(),
              null));
    }
    if (outcome.output().contains(NO_RIGHTS)) {
      return Optional.of(missingCapability(ending));
    }
    if (errors.stream().anyMatch(error -> NO_ROOM.stream().anyMatch(error::contains))) {
      return Optional.of(
          new DiskFullException(
              message(
                  ending, "no room for the image", "free some space or choose another directory"),
              failure(ending),
              general(ending, null)));
    }
    return Optional.empty();
  }

  private Optional<GpuCheckpointException> givenUp(
      TreeOutcome ending, Duration deadline, GivenUpException givenUp) {
    CriuException details = general(ending, givenUp);
    return switch (givenUp.why()) {
      case DEADLINE ->
          Optional.of(
              new OperationTimedOutException(
                  "%s did not end within %s; CRIU %s, %s: allow more time, or look into %s"
                      .formatted(
                          subject,
                          Printable.of(deadline),
                          whatBecameOfCriu(),
                          ending.words(),
                          log.file() == null ? "CRIU's output" : log.file()),
                  failure(ending),
                  details));
      case CANCELLED ->
          Optional.of(
              new OperationCancelledException(
                  subject + " was cancelled, CRIU " + whatBecameOfCriu() + ", " + ending.words(),
                  failure(ending),
                  details));
      case MISBEHAVIOUR -> Optional.empty();
    };
  }

  private String whatBecameOfCriu() {
    return outcome.exit().equals(ExitStatus.STILL_RUNS)
        ? "%s belongs to another user, could not be ended, and is refused at its next step"
            .formatted(outcome.criu() == 0 ? "" : "(process " + outcome.criu() + ")")
            .strip()
        : "was ended";
  }

  private MissingCapabilityException missingCapability(TreeOutcome ending) {
    Set<String> names = new TreeSet<>();
    Matcher capability = CAPABILITY.matcher(outcome.output());
    while (capability.find()) {
      names.add(capability.group());
    }
    return new MissingCapabilityException(
        message(
            ending,
            "CRIU has none of " + String.join(", ", names),
            "run as root, or give it one of these; or " + Privilege.CURE),
        failure(ending),
        criu(),
        names,
        null);
  }

  /** The failure, with its type if it has one that is common to all operations. */
  public GpuCheckpointException exception(TreeOutcome ending, Duration deadline) {
    return typed(ending, deadline).orElseGet(() -> general(ending, outcome.givenUp()));
  }
}
