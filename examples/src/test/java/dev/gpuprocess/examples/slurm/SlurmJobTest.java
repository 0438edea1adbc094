package dev.gpuprocess.examples.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What the environment of a job says. */
class SlurmJobTest {

  private static SlurmJob with(Map<String, String> more) {
    Map<String, String> environment =
        new HashMap<>(Map.of("SLURM_JOB_ID", "17", "SLURM_CLUSTER_NAME", "lab/../x"));
    environment.putAll(more);
    return SlurmJob.of(environment);
  }

  @Test
  void namesTheTaskOfAnArrayAndNotTheArray() {
    SlurmJob last = with(Map.of("SLURM_ARRAY_JOB_ID", "17", "SLURM_ARRAY_TASK_ID", "2"));
    assertEquals("17_2", last.id());
    assertEquals("lab_.._x-17_2", last.name());
    assertEquals("17", with(Map.of()).id());
  }

  @Test
  void tasksOfSrunHaveDirectoriesOfTheirOwn() {
    Map<String, String> task = Map.of("SLURM_STEP_ID", "0", "SLURM_PROCID", "3");
    assertEquals("lab_.._x-17-step0-rank3", with(task).name());
    Map<String, String> three = new HashMap<>(task);
    three.put("SLURM_STEP_NUM_TASKS", "5");
    assertEquals(
        List.of("0", "1", "2", "4"),
        with(three).others().stream()
            .map(name -> name.replace("lab_.._x-17-step0-rank", ""))
            .toList());
    Map<String, String> batch = Map.of("SLURM_STEP_ID", "4294967291", "SLURM_PROCID", "0");
    assertEquals("lab_.._x-17", with(batch).name());
    assertEquals(List.of(), with(batch).others());
  }

  @Test
  void knowsItsGpus() {
    assertEquals(List.of(), with(Map.of()).gpus());
    assertEquals(List.of("1", "5"), with(Map.of("CUDA_VISIBLE_DEVICES", "1,5")).gpus());
  }

  @Test
  void countsItsRestarts() {
    assertEquals(0, with(Map.of()).restarts());
    assertEquals(3, with(Map.of("SLURM_RESTART_COUNT", "3")).restarts());
  }

  @Test
  void isRefusedOutsideOfAJob() {
    assertThrows(IllegalStateException.class, () -> SlurmJob.of(Map.of()));
  }
}
