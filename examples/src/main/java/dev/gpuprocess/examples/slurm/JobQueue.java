package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.error.GpuCheckpointException;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Puts a job back into Slurm's queue once its commands are in images. Slurm ends all processes of
 * the job then. Used by one thread.
 */
final class JobQueue {

  private static final Duration ASK_AGAIN = Duration.ofSeconds(1);
  private static final Duration TERM_WAIT = Duration.ofSeconds(20);

  private final SlurmJob job;
  private final Scontrol scontrol;
  private final JobDirectory directory;
  private final JobEvents events;
  private final Consumer<String> log;

  JobQueue(
      SlurmJob job,
      Scontrol scontrol,
      JobDirectory directory,
      JobEvents events,
      Consumer<String> log) {
    this.job = job;
    this.scontrol = scontrol;
    this.directory = directory;
    this.events = events;
    this.log = log;
  }

  /**
   * Tells the other tasks of the step that this one has been dumped, has ended, or cannot be
   * dumped.
   */
  void setReady() {
    if (!job.others().isEmpty()) {
      record(() -> directory.recordReady(job.restarts()));
    }
  }

  /** Tells the other tasks of the step that this one is going to be dumped. */
  void setBusy() {
    if (!job.others().isEmpty()) {
      record(directory::clearReady);
    }
  }

  private void record(Runnable step) {
    try {
      step.run();
    } catch (GpuCheckpointException e) {
      log.accept("the other tasks may wait for this one, or not: " + e.getMessage());
    }
  }

  /**
   * Waits until a requeue interrupts no dump of the other tasks of the step. If a task does not
   * tell, as it was killed, the wait ends with the grace.
   *
   * @return whether to requeue the job; false if SIGTERM came before that
   */
  boolean awaitOthers(long endNanos) throws InterruptedException {
    for (String task : job.others()) {
      boolean isLogged = false;
      while (!isReady(task)) {
        if (System.nanoTime() - endNanos >= 0) {
          log.accept("the grace is over, and task %s is not dumped".formatted(task));
          return true;
        }
        if (!isLogged) {
          log.accept("waits for the dump of task " + task);
          isLogged = true;
        }
        if (hasSigterm()) {
          return false;
        }
      }
    }
    return true;
  }

  private boolean isReady(String task) {
    try {
      return directory.isReady(task, job.restarts());
    } catch (GpuCheckpointException e) {
      log.accept("does not wait for task %s: %s".formatted(task, e.getMessage()));
      return true;
    }
  }

  /**
   * Requeues the job. A controller that does not, as while it starts again, gets the question until
   * the grace is over: a job that ends is not requeued by Slurm.
   *
   * @return whether SIGTERM is to be expected
   */
  boolean requeue(long endNanos) throws InterruptedException {
    while (true) {
      Scontrol.Answer answer = scontrol.requeue(job);
      if (answer.done()) {
        return true;
      }
      JobRecord record = scontrol.job(job);
      if (record.isRequeued()) {
        return true;
      }
      if (!record.mayBeRequeued() || System.nanoTime() - endNanos >= 0) {
        log.accept(
            "the job cannot be requeued: %s; do it by hand: scontrol requeue %s"
                .formatted(answer.line(), job.id()));
        return false;
      }
      log.accept("the job is not requeued yet: " + answer.line());
      if (hasSigterm()) {
        return false;
      }
    }
  }

  private boolean hasSigterm() throws InterruptedException {
    boolean came = events.awaitTerm(ASK_AGAIN);
    if (came) {
      requeueAfterLimit(scontrol.job(job));
    }
    return came;
  }

  /** Requeues a job that Slurm ends at its time limit; it may refuse that. */
  void requeueAfterLimit(JobRecord record) {
    if (record.hasReachedTimeLimit() && !record.isRequeued()) {
      log.accept("after the time limit: " + scontrol.requeue(job).line());
    } else if (!record.isKnown()) {
      log.accept(
          "the controller does not answer; if the job is not requeued: scontrol requeue "
              + job.id());
    }
  }

  /** Keeps the job away from nodes; only one that is queued can be. */
  void exclude(Collection<String> nodes) {
    Set<String> all = new LinkedHashSet<>(nodes);
    String before = scontrol.job(job).excludedNodes();
    if (!before.isEmpty()) {
      all.add(before);
    }
    log.accept("requeued without %s: %s".formatted(all, scontrol.exclude(job, all).line()));
  }

  /** Waits for the end that Slurm sends to a job that is requeued. */
  void awaitTerm() throws InterruptedException {
    boolean unused = events.awaitTerm(TERM_WAIT);
  }
}
