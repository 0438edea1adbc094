package dev.gpuprocess.report;

import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.internal.text.Printable;
import org.jspecify.annotations.Nullable;

/**
 * The result of one check. Immutable.
 *
 * @param severity how bad it is
 * @param subject what was checked, such as {@code libcuda} or {@code process 12, descriptor 7}
 * @param what was found
 * @param cure what to do about it; empty when nothing is to be done, or when {@code what} says it
 * @param resource the resource that prevents a dump; null for everything else
 */
public record Finding(
    Severity severity,
    String subject,
    String what,
    String cure,
    @Nullable UnsupportedResource resource) {

  /** How bad something is. */
  public enum Severity {
    /** It works. */
    OK,
    /** It may fail, or does not work as well as it could. */
    WARNING,
    /** It does not work. */
    PROBLEM
  }

  private static final int MOST_OF_EACH = 2000;

  /**
   * Escapes in the texts what could mislead in a terminal or a log; the resource is not changed.
   */
  public Finding {
    subject = Printable.of(subject, MOST_OF_EACH);
    what = Printable.of(what, MOST_OF_EACH);
    cure = Printable.of(cure, MOST_OF_EACH);
  }

  /**
   * A finding that concerns no resource of a process.
   *
   * @param severity how bad it is
   * @param subject what was checked
   * @param what was found
   * @param cure what to do about it, or empty
   */
  public Finding(Severity severity, String subject, String what, String cure) {
    this(severity, subject, what, cure, null);
  }

  /**
   * Tells whether it is a problem.
   *
   * @return true for {@link Severity#PROBLEM}
   */
  public boolean isProblem() {
    return severity == Severity.PROBLEM;
  }

  /**
   * The finding in one sentence.
   *
   * @return subject, what, and the cure if there is one
   */
  @Override
  public String toString() {
    return subject + ": " + what + (cure.isEmpty() ? "" : "; " + cure);
  }
}
