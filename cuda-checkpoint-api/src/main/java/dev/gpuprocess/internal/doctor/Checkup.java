package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.doctor.Diagnosis;
import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.doctor.Finding.Severity;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.text.Printable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Collects findings. A check that throws or never returns is a finding too. */
final class Checkup {

  private final List<Finding> findings = new ArrayList<>();

  /** Findings of checks that are under way, by the thread that runs them. */
  private final Map<Thread, List<Finding>> parts = new ConcurrentHashMap<>();

  void ok(String subject, String what) {
    add(new Finding(Severity.OK, subject, what, ""));
  }

  /** It works; the cure would make it work better. */
  void ok(String subject, String what, String cure) {
    add(new Finding(Severity.OK, subject, what, cure));
  }

  void warning(String subject, String what, String cure) {
    add(new Finding(Severity.WARNING, subject, what, cure));
  }

  void problem(String subject, String what, String cure) {
    add(new Finding(Severity.PROBLEM, subject, what, cure));
  }

  void add(Finding finding) {
    parts.getOrDefault(Thread.currentThread(), findings).add(finding);
  }

  /** Runs several checks that each have their own deadline. */
  void look(String subject, Runnable body) {
    try {
      body.run();
    } catch (GpuCheckpointException e) {
      // Its message says what to do.
      problem(subject, String.valueOf(e.getMessage()), "");
    } catch (RuntimeException e) {
      problem(subject, "cannot be checked: " + e, "run as root");
    }
  }

  /**
   * Runs a check that only reads. If it fails or takes too long, as on a file system that hangs,
   * that is a problem; late findings are dropped.
   */
  void look(String subject, Duration deadline, Runnable body) {
    ask(subject, deadline, () -> found(body)).ifPresent(found -> found.forEach(this::add));
  }

  private List<Finding> found(Runnable body) {
    List<Finding> mine = new ArrayList<>();
    parts.put(Thread.currentThread(), mine);
    try {
      body.run();
    } finally {
      parts.remove(Thread.currentThread());
    }
    return mine;
  }

  /**
   * Asks a question; it is a problem if there is no answer.
   *
   * @return empty when there was no answer
   */
  <T> Optional<T> ask(String subject, Duration deadline, Supplier<@Nullable T> question) {
    return ask("doctor: " + subject, subject, deadline, question);
  }

  /**
   * Asks a question about something that may hang for its own reasons.
   *
   * @param about the subject, such as a process
   */
  <T> Optional<T> ask(
      Object about, String subject, Duration deadline, Supplier<@Nullable T> question) {
    String name = "doctor: " + subject;
    return await(
        subject,
        deadline,
        () -> {
          BoundedCall.requireCapacity(about, name);
          return BoundedCall.run(
              about,
              name,
              deadline,
              () -> Optional.ofNullable(question.get()),
              (value, failure) -> {});
        });
  }

  /** A wait that bounds itself. */
  interface Waiting<T> {
    Optional<T> answer() throws TimeoutException;
  }

  /**
   * Waits for an answer; it is a problem if there is none.
   *
   * @return empty when there was no answer
   */
  <T> Optional<T> await(String subject, Duration deadline, Waiting<T> question) {
    try {
      return question.answer();
    } catch (TimeoutException e) {
      problem(
          subject,
          "does not answer within " + Printable.of(deadline),
          "look for what hangs in the kernel's log (dmesg) and in the mounts");
    } catch (GpuCheckpointException | IllegalArgumentException e) {
      // Its message says what to do.
      problem(subject, String.valueOf(e.getMessage()), "");
    } catch (RuntimeException | LinkageError e) {
      problem(subject, "cannot be checked: " + e, "run as root");
    }
    return Optional.empty();
  }

  /** Whether a check of this subject was successful. */
  boolean hasPassed(String subject) {
    return findings.stream()
        .anyMatch(found -> found.severity() == Severity.OK && found.subject().equals(subject));
  }

  Diagnosis diagnosis() {
    return new Diagnosis(findings);
  }
}
