package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Collects findings. A check that throws or does not return is also a finding. */
final class Checkup {

  private final List<Finding> findings = new ArrayList<>();

  /** Findings of checks that are under way, by the thread that runs them. */
  private final Map<Thread, List<Finding>> parts = new ConcurrentHashMap<>();

  void ok(String subject, String what) {
    add(new Finding(Severity.OK, subject, what, ""));
  }

  /** Adds a finding without a problem, and a cure that would improve it. */
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
      // The message has the cure.
      problem(subject, String.valueOf(e.getMessage()), "");
    } catch (RuntimeException e) {
      problem(subject, "cannot be checked: " + e, CurrentUser.isRoot() ? "" : "run as root");
    }
  }

  /**
   * Runs a check that only reads. If it fails or takes too long, for example on a file system that
   * hangs, that is a problem; late findings are dropped.
   */
  void look(String subject, Duration deadline, Runnable body) {
    query(subject, deadline, () -> found(body)).ifPresent(found -> found.forEach(this::add));
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
   * Runs a query; it is a problem if it does not return.
   *
   * @return the result; else empty
   */
  <T> Optional<T> query(String subject, Duration deadline, Supplier<@Nullable T> query) {
    return query("doctor: " + subject, subject, deadline, query);
  }

  /** Runs a query about a resource, such as a process, with which all queries may hang. */
  <T> Optional<T> query(
      Object resource, String subject, Duration deadline, Supplier<@Nullable T> query) {
    String name = "doctor: " + subject;
    return await(
        subject,
        deadline,
        () -> {
          BoundedCall.requireCapacity(resource, name);
          return BoundedCall.run(
              resource,
              name,
              deadline,
              () -> Optional.ofNullable(query.get()),
              (value, failure) -> {});
        });
  }

  /** A query with its own deadline. */
  private interface BoundedQuery<T> {
    Optional<T> run() throws TimeoutException;
  }

  /**
   * Reads the state of a process from the driver.
   *
   * @param process a process that is not stopped
   * @return empty if the driver does not answer
   */
  Optional<CudaAnswer<ProcessState>> state(
      EngineContext context, String subject, ProcessIdentity process) {
    Duration deadline = context.timeouts().call();
    StateReading reading = StateReading.ask(context.cuda(), process.pid());
    return await(
        subject,
        deadline,
        () -> {
          try {
            return Optional.of(reading.await(deadline));
          } catch (TimeoutException e) {
            Optional<String> busy = ProcessLock.describe(ProcessKey.of(process), context.state());
            busy.ifPresent(verb -> warning(subject, verb, "wait for it"));
            if (busy.isEmpty()) {
              throw e;
            }
            return Optional.empty();
          }
        });
  }

  private <T> Optional<T> await(String subject, Duration deadline, BoundedQuery<T> query) {
    try {
      return query.run();
    } catch (TimeoutException e) {
      problem(
          subject,
          "does not answer within " + Printable.of(deadline),
          "look in the kernel's log (dmesg) and at the mounts for the reason");
    } catch (GpuCheckpointException | IllegalArgumentException e) {
      // The message has the cure.
      problem(subject, String.valueOf(e.getMessage()), "");
    } catch (RuntimeException | LinkageError e) {
      problem(subject, "cannot be checked: " + e, CurrentUser.isRoot() ? "" : "run as root");
    }
    return Optional.empty();
  }

  /** Returns whether a check of this subject was successful. */
  boolean hasPassed(String subject) {
    return findings.stream()
        .anyMatch(found -> found.severity() == Severity.OK && found.subject().equals(subject));
  }

  Diagnosis diagnosis() {
    return new Diagnosis(findings);
  }
}
