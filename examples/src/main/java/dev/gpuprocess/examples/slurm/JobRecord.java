package dev.gpuprocess.examples.slurm;

import java.util.Map;

/**
 * What Slurm's controller records of a job at one moment.
 *
 * @param job the job
 * @param fields the fields of {@code scontrol show job}; empty if the controller did not answer
 */
record JobRecord(SlurmJob job, Map<String, String> fields) {

  boolean isKnown() {
    return fields.containsKey("JobState");
  }

  boolean isRunning() {
    return state().equals("RUNNING");
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

  boolean hasReachedTimeLimit() {
    return state().equals("TIMEOUT") || fields.getOrDefault("Reason", "").equals("TimeLimit");
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
