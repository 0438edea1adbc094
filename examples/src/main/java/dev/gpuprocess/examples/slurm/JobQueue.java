package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.error.GpuCheckpointException;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Puts a job back into Slurm's queue once its commands are in images. Slurm ends all processes of
 * the job then. Used by one thread.
 */
final class JobQueue {

  private static final Duration ASK_AGAIN = Duration.ofSeconds(1);
  private static final Duration TERM_WAIT = Duration.ofSeconds(20);

  /** What is left for the requeue before Slurm ends the job. */
  private static final Duration REQUEUE_TIME = Duration.ofSeconds(10);

  private final SlurmJob job;
  private final Scontrol scontrol;
  private final JobDirectory directory;
  private final JobEvents events;
  private final Consumer<String> log;
  private final Duration patience;

  /** What Slurm recorded of the job after its SIGTERM. */
  private @Nullable JobRecord ended;

  /**
   * Creates it.
   *
   * @param patience for how long at least a controller gets a question that it refuses or does not
   *     answer
   */
  JobQueue(
      SlurmJob job,
      Scontrol scontrol,
      JobDirectory directory,
      JobEvents events,
      Consumer<String> log,
      Duration patience) {
    this.job = job;
    this.scontrol = scontrol;
    this.directory = directory;
    this.events = events;
    this.log = log;
    this.patience = patience;
  }

  /**
   * Requeues the job for a reason of this task alone. Other tasks are waited for if they may be
   * signalled too, and so are being dumped.
   *
   * @return as {@link #requeue}
   */
  boolean requeueAlone(JobRecord record, long endNanos) throws InterruptedException {
    boolean areSignalled = !record.isKnown() || record.isPreempted() || events.isSignalled();
    return (!areSignalled || awaitOthers(endNanos)) && requeue(endNanos);
  }

  /**
   * Waits until a requeue interrupts no dump of the other tasks of the step. If a task does not
   * tell, as it was killed, the wait ends with the grace, or shortly before Slurm ends the job.
   *
   * @return whether to requeue the job; false if Slurm has ended it before that
   */
  boolean awaitOthers(long endNanos) throws InterruptedException {
    boolean isEndKnown = false;
    long end = endNanos;
    for (String task : job.others()) {
      Optional<String> obstacle = notReady(task);
      obstacle.ifPresent(
          why -> log.accept("waits for the dump of task %s (%s)".formatted(task, why)));
      while (obstacle.isPresent()) {
        if (!isEndKnown) {
          JobRecord record = scontrol.job(job);
          isEndKnown = record.isKnown();
          end = beforeItsEnd(record, Duration.ZERO, endNanos);
        }
        if (isOver(end)) {
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

  /**
   * Returns the end of the grace, or before that a moment that leaves time for a requeue: Slurm
   * does not requeue a job that it ends at its time limit.
   *
   * @param more how long the job goes on after its end
   */
  static long beforeItsEnd(JobRecord record, Duration more, long endNanos) {
    long now = System.nanoTime();
    return record
        .timeLeft()
        .map(more::plus)
        .map(left -> left.toNanos() - Math.min(left.toNanos() / 4, REQUEUE_TIME.toNanos()))
        .map(left -> now + Math.min(endNanos - now, left))
        .orElse(endNanos);
  }

  private static boolean isOver(long endNanos) {
    return System.nanoTime() - endNanos >= 0;
  }

  /**
   * Requeues a job that runs, and whose command is in an image. A controller that does not, as
   * while it starts again, gets the question until the grace is over, and for some minutes at
   * least: nothing else would continue the job. One that was cancelled is not requeued, nor one
   * that another task has requeued, which may run again elsewhere.
   *
   * @return whether the job is in the queue again, so that SIGTERM follows
   */
  boolean requeue(long endNanos) throws InterruptedException {
    long now = System.nanoTime();
    long end = now + Math.max(endNanos - now, patience.toNanos());
    Duration pause = Duration.ZERO;
    while (!isEnded(pause)) {
      JobRecord before = scontrol.job(job);
      if (before.isRequeued()) {
        return true;
      }
      if (before.mayBeAllowedToRequeue()) {
        log.accept("Requeue=1 is set for the job: " + scontrol.allowRequeue(job).line());
      }
      // Slurm says that it is done also if the job did not run, and so was not requeued.
      Scontrol.Answer answer = scontrol.requeue(job);
      JobRecord record = scontrol.job(job);
      if (record.isRequeued()) {
        return true;
      }
      if (!record.mayBeRequeued() || isOver(end)) {
        if (!requeueAfterLimit(record)) {
          log.accept(
              "the job is %s and is not requeued: %s; to continue it: %s"
                  .formatted(
                      record.state(),
                      answer.line(),
                      record.canBeRequeued()
                          ? "scontrol requeue " + job.id()
                          : "gpuprocess restore-image --newest " + directory.images()));
        }
        return false;
      }
      log.accept("the job is not requeued yet: " + answer.line());
      pause = ASK_AGAIN;
    }
    return ended != null && ended.isRequeued();
  }

  /** Returns whether Slurm ends the job; a SIGTERM of a user does not count. */
  private boolean isEnded(Duration wait) throws InterruptedException {
    if (!events.awaitTerm(wait)) {
      return false;
    }
    JobRecord record = awaitRecord();
    if (record.isRunning()) {
      return false;
    }
    boolean unused = requeueAfterLimit(record);
    JobRecord last = scontrol.job(job);
    log.accept("the job is %s; the image is kept".formatted(last.state()));
    ended = last;
    return true;
  }

  /** Asks for the record of the job until the controller answers; SIGKILL may end the wait. */
  JobRecord awaitRecord() throws InterruptedException {
    long end = System.nanoTime() + patience.toNanos();
    JobRecord record = scontrol.job(job);
    while (!record.isKnown() && !isOver(end)) {
      log.accept("the controller does not answer");
      boolean unused = events.awaitTerm(ASK_AGAIN);
      record = scontrol.job(job);
    }
    if (!record.isKnown()) {
      log.accept("if the job is not requeued: scontrol requeue " + job.id());
    }
    return record;
  }

  /**
   * Requeues a job that Slurm ends at its time limit, which it may refuse. Another stays ended.
   *
   * @return whether the job has reached its limit
   */
  boolean requeueAfterLimit(JobRecord first) throws InterruptedException {
    long end = System.nanoTime() + patience.toNanos();
    JobRecord record = first;
    while (record.hasReachedTimeLimit() && !tryAfterLimit(record) && !isOver(end)) {
      boolean unused = events.awaitTerm(ASK_AGAIN);
      record = awaitRecord();
    }
    return first.hasReachedTimeLimit();
  }

  /** Asks once. Returns false if that may succeed later. */
  boolean tryAfterLimit(JobRecord record) {
    if (record.isRequeued()) {
      return true;
    }
    Scontrol.Answer answer = scontrol.requeueEnded(job);
    log.accept("after the time limit: " + answer.line());
    return answer.done() || !record.canBeRequeued();
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
    boolean unused = ended != null || events.awaitTerm(TERM_WAIT);
  }
}
