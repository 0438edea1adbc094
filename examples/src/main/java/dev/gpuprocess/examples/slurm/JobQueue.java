package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.error.GpuCheckpointException;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.Optional;
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
   * Waits until a requeue interrupts no dump of the other tasks of the step. If a task does not
   * tell, as it was killed, the wait ends with the grace, or shortly before the time limit.
   *
   * @return whether to requeue the job; false if Slurm has ended it before that
   */
  boolean awaitOthers(long endNanos) throws InterruptedException {
    long end = endNanos;
    for (String task : job.others()) {
      Optional<String> obstacle = notReady(task);
      if (obstacle.isPresent()) {
        log.accept("waits for the dump of task %s (%s)".formatted(task, obstacle.get()));
        end = beforeTheTimeLimit(endNanos);
      }
      while (obstacle.isPresent()) {
        if (System.nanoTime() - end >= 0) {
          log.accept("requeues without a dump of task " + task);
          return true;
        }
        if (isEnded(ASK_AGAIN)) {
          return false;
        }
        obstacle = notReady(task);
      }
    }
    return true;
  }

  private Optional<String> notReady(String task) {
    try {
      return directory.isReady(task, job.restarts())
          ? Optional.empty()
          : Optional.of("it has not told that it is ready");
    } catch (GpuCheckpointException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    }
  }

  /** A quarter of the time until Slurm ends the job is left for the requeue. */
  private long beforeTheTimeLimit(long endNanos) {
    long now = System.nanoTime();
    return scontrol
        .job(job)
        .timeLeft()
        .map(left -> Math.min(endNanos - now, left.toNanos() / 4 * 3) + now)
        .orElse(endNanos);
  }

  /**
   * Requeues the job. A controller that does not, as while it starts again, gets the question until
   * the grace is over: a job that ends is not requeued by Slurm. A job that was cancelled is not
   * requeued, nor one that another task has requeued, which may run again elsewhere.
   *
   * @return whether SIGTERM is to be expected
   */
  boolean requeue(long endNanos) throws InterruptedException {
    Duration pause = Duration.ZERO;
    while (!isEnded(pause)) {
      if (scontrol.job(job).isRequeued()) {
        return true;
      }
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
      pause = ASK_AGAIN;
    }
    return false;
  }

  /** Returns whether Slurm ends the job; a SIGTERM of a user does not count. */
  private boolean isEnded(Duration wait) throws InterruptedException {
    if (!events.awaitTerm(wait)) {
      return false;
    }
    JobRecord record = scontrol.job(job);
    if (record.isRunning()) {
      return false;
    }
    requeueAfterLimit(record);
    return true;
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
