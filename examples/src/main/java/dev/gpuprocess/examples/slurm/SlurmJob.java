package dev.gpuprocess.examples.slurm;

import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * The job or task that this process belongs to, as Slurm describes it in the environment.
 *
 * @param id the name of the job for {@code scontrol}: {@code 17}, or {@code 17_2} for the second
 *     task of an array
 * @param name the name of its directory: cluster, id, and for a task of {@code srun} step and rank
 * @param restarts how often the job was requeued before this run
 * @param node the name of this node
 * @param partition the name of its partition; empty if it is not known
 * @param others the names of the other tasks that {@code srun} has started with this one
 * @param gpus the GPUs that Slurm has given to it, as {@code CUDA_VISIBLE_DEVICES} names them: by
 *     number, from 0 for the first that the job sees, or by UUID; empty for all that it sees
 */
public record SlurmJob(
    String id,
    String name,
    int restarts,
    String node,
    String partition,
    List<String> others,
    List<String> gpus) {

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
    String name = cluster(environment.getOrDefault("SLURM_CLUSTER_NAME", "")) + "-" + id;
    List<String> others = List.of();
    String step = environment.getOrDefault("SLURM_STEP_ID", "");
    String rank = environment.getOrDefault("SLURM_PROCID", "");
    if (isNumber(step) && isNumber(rank) && Long.parseLong(step) < LAST_STEP) {
      String tasks = name + "-step" + step + "-rank";
      name = tasks + rank;
      others = without(name, tasks, count(environment, "SLURM_STEP_NUM_TASKS"));
    }
    return new SlurmJob(
        id,
        name,
        count(environment, "SLURM_RESTART_COUNT"),
        environment.getOrDefault("SLURMD_NODENAME", ""),
        environment.getOrDefault("SLURM_JOB_PARTITION", ""),
        others,
        gpus(environment.getOrDefault("CUDA_VISIBLE_DEVICES", "")));
  }

  /** Returns the name of a cluster as it is in names of directories. */
  static String cluster(String name) {
    return name.isEmpty() ? "cluster" : name.replaceAll("[^\\w.-]", "_");
  }

  private static List<String> gpus(String visible) {
    return visible.isEmpty() ? List.of() : List.of(visible.split(","));
  }

  private static List<String> without(String name, String tasks, int count) {
    return IntStream.range(0, count)
        .mapToObj(rank -> tasks + rank)
        .filter(task -> !task.equals(name))
        .toList();
  }

  private static int count(Map<String, String> environment, String name) {
    String text = environment.getOrDefault(name, "");
    return text.matches("\\d{1,6}") ? Integer.parseInt(text) : 0;
  }

  private static boolean isNumber(String text) {
    return text.matches("\\d{1,10}");
  }
}
