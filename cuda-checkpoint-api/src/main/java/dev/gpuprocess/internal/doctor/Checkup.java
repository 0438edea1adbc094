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

/** Collects findings. What is asked may throw or never return: that is a finding too. */
final class Checkup {

  private final List<Finding> findings = new ArrayList<>();

  /** Findings of looks that are under way, by the thread that looks. */
  private final Map<Thread, List<Finding>> parts = new ConcurrentHashMap<>();

  void ok(String subject, String what) {
    add(new Finding(Severity.OK, subject, what, ""));
  }

  /** Works as it is; the cure would make it better. */
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

  /** Goes through several things, each of which is asked or looked at in its own time. */
  void look(String subject, Runnable body) {
    try {
      body.run();
    } catch (RuntimeException e) {
      problem(subject, "cannot be looked at: " + e, "run as root");
    }
  }

  /**
   * Looks at something that is only read; what cannot be read is a problem, and so is what cannot
   * be read in time, as on a file system that hangs. What is found later then is dropped.
   */
  void look(String subject, Duration deadline, Runnable body) {
    try {
      String name = "doctor: " + subject;
      BoundedCall.requireCapacity(name, name);
      BoundedCall.run(name, name, deadline, () -> found(body), (value, failure) -> {})
          .forEach(this::add);
    } catch (TimeoutException e) {
      problem(
          subject,
          "does not answer within " + Printable.of(deadline) + ": a file system may hang",
          "look into the kernel's log (dmesg) and at the mounts for what hangs");
    } catch (RuntimeException e) {
      problem(subject, "cannot be looked at: " + e, "run as root");
    }
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
   * Asks; no answer is a problem.
   *
   * @return empty when there was none
   */
  <T> Optional<T> ask(String subject, Duration deadline, Supplier<@Nullable T> question) {
    return ask("doctor: " + subject, subject, deadline, question);
  }

  /**
   * The same about something that hangs for reasons of its own.
   *
   * @param about what is asked, such as a process
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

  /** What waits by itself, for that long. */
  interface Waiting<T> {
    Optional<T> answer() throws TimeoutException;
  }

  /**
   * Waits for what is asked already; no answer is a problem.
   *
   * @return empty when there was none
   */
  <T> Optional<T> await(String subject, Duration deadline, Waiting<T> question) {
    try {
      return question.answer();
    } catch (TimeoutException e) {
      problem(
          subject,
          "does not answer within " + Printable.of(deadline),
          "look into the kernel's log (dmesg) for what hangs");
    } catch (GpuCheckpointException | IllegalArgumentException e) {
      // Its message says what to do.
      problem(subject, String.valueOf(e.getMessage()), "");
    } catch (RuntimeException | LinkageError e) {
      problem(subject, "cannot be asked: " + e, "");
    }
    return Optional.empty();
  }

  /** Whether this was looked at and found right. */
  boolean hasPassed(String subject) {
    return findings.stream()
        .anyMatch(found -> found.severity() == Severity.OK && found.subject().equals(subject));
  }

  Diagnosis diagnosis() {
    return new Diagnosis(findings);
  }
}
