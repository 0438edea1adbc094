package dev.gpuprocess.examples.slurm;

import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.format.DateTimeParseException;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * What Slurm's controller records of a job at one moment.
 *
 * @param job the job
 * @param fields the fields of {@code scontrol show job}; empty if the controller did not answer
 */
record JobRecord(SlurmJob job, Map<String, String> fields) {

  private static final Set<String> RUNNING = Set.of("RUNNING", "SIGNALING");

  boolean isKnown() {
    return fields.containsKey("JobState");
  }

  /** Whether its command may run; SIGNALING is shown while Slurm sends a signal. */
  boolean isRunning() {
    return !isRequeued() && RUNNING.contains(fields.getOrDefault("JobState", ""));
  }

  /**
   * Whether the job is in the queue again. While its processes end, the state is COMPLETING after a
   * cancellation and after a preemption; only the number of restarts differs.
   */
  boolean isRequeued() {
    String restarts = fields.getOrDefault("Restarts", "");
    return restarts.matches("\\d{1,9}") && Integer.parseInt(restarts) > job.restarts();
  }

  /** Whether Slurm has announced a preemption, and waits for the end of the grace. */
  boolean isPreempted() {
    return fields.getOrDefault("PreemptTime", "").matches("\\d.*");
  }

  /** Slurm requeues jobs of {@code sbatch} alone. */
  boolean canBeRequeued() {
    return !fields.getOrDefault("Requeue", "").equals("0")
        && !fields.getOrDefault("BatchFlag", "").equals("0");
  }

  /**
   * Whether a user may still make it a job that can be requeued: one of {@code sbatch} that runs.
   */
  boolean mayBeAllowedToRequeue() {
    return isRunning()
        && fields.getOrDefault("Requeue", "").equals("0")
        && !fields.getOrDefault("BatchFlag", "").equals("0");
  }

  /** Whether a requeue that has failed may succeed later, such as when the controller was busy. */
  boolean mayBeRequeued() {
    return !isKnown() || (canBeRequeued() && isRunning());
  }

  boolean hasReachedTimeLimit() {
    return fields.getOrDefault("JobState", "").equals("TIMEOUT")
        || fields.getOrDefault("Reason", "").equals("TimeLimit");
  }

  /**
   * Returns the time until Slurm ends it, at its time limit or at the end of the grace of a
   * preemption; empty if it does not tell, as for a job without a time limit, or if that time is
   * over by the clock of this node.
   */
  Optional<Duration> timeLeft() {
    try {
      LocalDateTime end = LocalDateTime.parse(fields.getOrDefault("EndTime", ""));
      return Optional.of(Duration.between(LocalDateTime.now(ZoneId.systemDefault()), end))
          .filter(left -> !left.isNegative());
    } catch (DateTimeParseException e) {
      return Optional.empty(); // Slurm writes Unknown
    }
  }

  /** Returns the nodes that the job must not run on, as Slurm writes them. */
  String excludedNodes() {
    String nodes = fields.getOrDefault("ExcNodeList", "");
    return nodes.equals("(null)") ? "" : nodes;
  }

  String state() {
    return fields.getOrDefault("JobState", "unknown")
        + (isRequeued() ? ", requeued" : isPreempted() ? ", to be preempted" : "");
  }
}
