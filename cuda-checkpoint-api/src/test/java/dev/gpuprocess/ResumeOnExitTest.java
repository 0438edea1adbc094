package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.time.Duration;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A controller gets a SIGTERM while it has a suspended process. */
@SimulatedGpu(gpus = 2, mebibytes = 2048)
@Tag("slow")
record ResumeOnExitTest(
    SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter, LaunchedTree tree) {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private ExitingController controller(boolean resumes, String moment, String verb)
      throws IOException {
    return ExitingController.start(
        machine, machine.stateDirectory(), counter.pid(), resumes, moment, verb);
  }

  private static void end(ExitingController controller) throws InterruptedException {
    controller.terminate();
    assertEquals(ExitingController.SIGTERM_EXIT, controller.awaitExit(PATIENCE));
  }

  private void assertRuns() throws IOException {
    assertInstanceOf(RunningProcess.class, checkpoints.inspect(counter.pid()));
    assertEquals(101, counter.increment());
    assertEquals(0, tree.entries());
  }

  @ParameterizedTest
  @CsvSource({"block,suspend", "block,lock", "block,twice"})
  void exitInATryBlockResumes(String moment, String verb) throws Exception {
    try (ExitingController controller = controller(true, moment, verb)) {
      end(controller);
    }
    assertRuns();
  }

  @Test
  void exitResumesAProcessThatWasSuspendedWhileAnotherOneWas() throws Exception {
    try (Counter other = Counter.start(machine);
        ExitingController controller = controller(true, "block", "beside " + other.pid())) {
      end(controller);
      assertEquals(101, other.increment());
      assertRuns();
    }
  }

  @Test
  void exitWhileTheDriverWaitsForGpuWorkUndoesTheLock() throws Exception {
    counter.spin(Duration.ofSeconds(4));
    try (ExitingController controller = controller(true, "lock", "suspend")) {
      end(controller);
    }
    assertRuns();
  }

  @Test
  void exitDuringACheckpointUndoesIt() throws Exception {
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").hangs(Duration.ofSeconds(2)));
    try (ExitingController controller = controller(true, "checkpoint", "suspend")) {
      end(controller);
    }
    assertRuns();
  }

  @Test
  void exitResumesAllMembersOfAJob() throws Exception {
    Job launched = tree.launch(0);
    try (ExitingController controller =
        ExitingController.start(
            tree.machine(), tree.state(), launched.pid(), true, "block", "job")) {
      end(controller);
    }
    assertInstanceOf(RunningProcess.class, tree.checkpoints().inspect(launched.pid()));
    LaunchedTree.assertGoesOn(launched, LaunchedTree.MEMBERS);
    assertEquals(0, tree.entries());
  }

  /** A command-line tool suspends a process and exits. */
  @Test
  void exitLeavesAProcessSuspendedByDefault() throws Exception {
    try (ExitingController controller = controller(false, "block", "suspend")) {
      end(controller);
    }
    ((CheckpointedProcess) checkpoints.inspect(counter.pid())).resume();
    assertRuns();
  }

  @Test
  void exitLeavesAloneWhatAnotherControllerHasMoved() throws Exception {
    try (ExitingController controller = controller(true, "block", "suspend")) {
      ((CheckpointedProcess) checkpoints.inspect(counter.pid())).resume();
      checkpoints.process(counter.pid()).suspend();
      end(controller);
    }
    ((CheckpointedProcess) checkpoints.inspect(counter.pid())).resume();
    assertRuns();
  }

  @Test
  void exitDoesNotWaitForADriverThatDoesNotAnswer() throws Exception {
    // Longer than a busy machine takes to read a state.
    Duration each = Duration.ofSeconds(5);
    machine.faults(Fault.in("cuCheckpointProcessLock").after().hangs());
    try (ExitingController controller =
        ExitingController.start(
            machine, machine.stateDirectory(), counter.pid(), true, "lock", "suspend", each)) {
      end(controller);
    }
    machine.clearFaults();
    checkpoints.recover();
    await()
        .atMost(60, SECONDS)
        .until(() -> checkpoints.inspect(counter.pid()) instanceof RunningProcess);
    assertRuns();
  }

  @Test
  void stateObjectsAreNotKeptAlive() {
    GpuCheckpoints resuming = checkpoints.toBuilder().resumeOnExit(true).build();
    WeakReference<CheckpointedProcess> suspended =
        new WeakReference<>(resuming.process(counter.pid()).suspend());
    await()
        .atMost(60, SECONDS)
        .until(
            () -> {
              System.gc();
              return suspended.get() == null;
            });
    ((CheckpointedProcess) checkpoints.inspect(counter.pid())).resume();
    assertTrue(counter.increment() > 100);
  }
}
