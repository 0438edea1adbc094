package dev.gpuprocess.examples.slurm;

import java.util.Map;

/**
 * The job or task that this process belongs to, as Slurm describes it in the environment.
 *
 * @param id the name of the job for {@code scontrol}: {@code 17}, or {@code 17_2} for the second
 *     task of an array
 * @param name the name of its directory: cluster, id, and for a task of {@code srun} step and rank
 * @param restarts how often the job was requeued before this run
 * @param node the name of this node
 * @param partition the name of its partition; empty if it is not known
 */
public record SlurmJob(String id, String name, int restarts, String node, String partition) {

  /** Steps above this are not of {@code srun}, such as the batch script itself. */
  private static final long LAST_STEP = 0xfffffff0L;

  /**
   * Reads the environment of a job.
   *
   * @param environment the variables
   * @return the job
   * @throws IllegalStateException if the process is in no Slurm job
   */
  public static SlurmJob of(Map<String, String> environment) {
    String number = environment.getOrDefault("SLURM_JOB_ID", "");
    if (!isNumber(number)) {
      throw new IllegalStateException(
          "this is no Slurm job, as SLURM_JOB_ID is not set: call it in a batch script");
    }
    // The id of one task of an array is that of the whole array, and a requeue would requeue all.
    String array = environment.getOrDefault("SLURM_ARRAY_JOB_ID", "");
    String task = environment.getOrDefault("SLURM_ARRAY_TASK_ID", "");
    String id = isNumber(array) && isNumber(task) ? array + "_" + task : number;
    String cluster =
        environment.getOrDefault("SLURM_CLUSTER_NAME", "cluster").replaceAll("[^\\w.-]", "_");
    String restarts = environment.getOrDefault("SLURM_RESTART_COUNT", "");
    return new SlurmJob(
        id,
        cluster + "-" + id + step(environment),
        isNumber(restarts) ? Integer.parseInt(restarts) : 0,
        environment.getOrDefault("SLURMD_NODENAME", ""),
        environment.getOrDefault("SLURM_JOB_PARTITION", ""));
  }

  private static String step(Map<String, String> environment) {
    String step = environment.getOrDefault("SLURM_STEP_ID", "");
    String rank = environment.getOrDefault("SLURM_PROCID", "");
    return isNumber(step) && isNumber(rank) && Long.parseLong(step) < LAST_STEP
        ? "-step" + step + "-rank" + rank
        : "";
  }

  private static boolean isNumber(String text) {
    return text.matches("\\d{1,10}");
  }
}
