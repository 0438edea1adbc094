package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import org.junit.jupiter.api.Test;

/** The documented calls of the three programs, with the outputs that scripts parse. */
@SimulatedGpu
class CompatibleFormsTest {

  private static void assertPrints(String out, Call call) {
    assertEquals(0, call.code(), call::toString);
    assertEquals(out, call.out());
    assertEquals("", call.err());
  }

  @Test
  void cudaCheckpoint(GpuCheckpoints machine, Counter counter) {
    String name = CompatibleForms.CUDA_CHECKPOINT;
    long pid = counter.pid();
    assertPrints("running\n", Call.as(name, machine, "--get-state", "--pid", pid));
    assertPrints("", Call.as(name, machine, "--toggle", "--pid", pid));
    assertPrints("checkpointed\n", Call.as(name, machine, "--get-state", "-p", pid));
    assertPrints("", Call.as(name, machine, "--toggle", "--pid", pid));
    assertEquals(101, counter.increment());
    assertPrints("", Call.as(name, machine, "--action", "lock", "-p", pid, "--timeout", 5000));
    assertPrints("locked\n", Call.as(name, machine, "--get-state", "--pid=" + pid));
    assertPrints("", Call.as(name, machine, "--action", "checkpoint", "--pid", pid));
    String gpu = machine.gpus().gpus().orElseThrow().get(0).uuid().text();
    assertPrints(
        "",
        Call.as(
            name, machine, "--action", "restore", "--pid", pid, "--device-map", gpu + "=" + gpu));
    assertPrints("", Call.as(name, machine, "--action", "unlock", "--pid", pid));
    assertEquals(102, counter.increment());
    Call thread = Call.as(name, machine, "--get-restore-tid", "--pid", pid);
    assertTrue(thread.out().matches("[1-9]\\d*\n"), thread::toString);
  }

  @Test
  void cudaCheckpointRefuses(GpuCheckpoints machine, Workload idle) {
    String name = CompatibleForms.CUDA_CHECKPOINT;
    Call state = Call.as(name, machine, "--get-state", "--pid", idle.pid());
    assertEquals(1, state.code());
    assertEquals("", state.out());
    assertEquals(
        "Error getting process state for process ID %s: \"initialization error\"%n"
            .formatted(idle.pid()),
        state.err());
    assertEquals(1, Call.as(name, machine, "--action", "lock", "--pid", idle.pid()).code());
    assertEquals(1, Call.as(name, machine, "--toggle").code());
    assertEquals(1, Call.as(name, machine, "--frobnicate").code());
    assertEquals(0, Call.as(name, machine, "--help").code());
  }

  @Test
  void processRunsAfterACheckpointThatFailed(GpuCheckpoints machine, Counter counter) {
    counter.allocateManaged(); // the driver does not checkpoint this
    long pid = counter.pid();
    String cuda = CompatibleForms.CUDA_CHECKPOINT;
    assertEquals(1, Call.as(cuda, machine, "--toggle", "--pid", pid).code());
    assertPrints("running\n", Call.as(cuda, machine, "--get-state", "--pid", pid));
    assertEquals(1, Call.as(CompatibleForms.CR_CLIENT, machine, "-c", "-p", pid).code());
    assertPrints("running\n", Call.as(cuda, machine, "--get-state", "--pid", pid));
    assertEquals(101, counter.increment());
  }

  @Test
  void cuCheck(GpuCheckpoints machine, Counter counter) {
    String name = CompatibleForms.CU_CHECK;
    long pid = counter.pid();
    assertPrints("state: CU_PROCESS_STATE_RUNNING\n", Call.as(name, machine, "state", pid));
    assertPrints("locked successfully\n", Call.as(name, machine, "lock", pid));
    assertPrints("checkpointed successfully\n", Call.as(name, machine, "checkpoint", pid));
    assertPrints("state: CU_PROCESS_STATE_CHECKPOINTED\n", Call.as(name, machine, "state", pid));
    assertPrints("restored successfully\n", Call.as(name, machine, "restore", pid));
    assertEquals(255, Call.as(name, machine, "restore", pid).code());
    assertPrints("unlocked successfully\n", Call.as(name, machine, "unlock", pid));
    assertEquals(101, counter.increment());
    assertEquals(255, Call.as(name, machine, "state").code());
  }

  @Test
  void crClient(GpuCheckpoints machine, Counter counter) {
    String name = CompatibleForms.CR_CLIENT;
    long pid = counter.pid();
    assertPrints("", Call.as(name, machine, "-i", "-p", pid));
    Call saved = Call.as(name, machine, "-c", "-p", pid);
    assertTrue(saved.out().endsWith("Checkpointing done\n"), saved::toString);
    assertPrints(
        "checkpointed\n",
        Call.as(CompatibleForms.CUDA_CHECKPOINT, machine, "--get-state", "--pid", pid));
    Call restored = Call.as(name, machine, "-r", "-p", pid, "-m", pid);
    assertTrue(restored.out().endsWith("Restoring done\n"), restored::toString);
    assertEquals(101, counter.increment());
    assertEquals(1, Call.as(name, machine, "-c", "-r", "-p", pid).code());
    Call gone = Call.as(name, machine, "-c", "-p", 999_999_999);
    assertEquals("", gone.out(), gone::toString);
    assertEquals(1, gone.code(), gone::toString);
  }
}
