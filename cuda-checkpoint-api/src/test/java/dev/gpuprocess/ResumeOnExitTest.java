package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.CountingJob;
import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A controller gets a SIGTERM while it has something suspended. */
class ResumeOnExitTest {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  @RegisterExtension final CountingJob job = new CountingJob();
  @RegisterExtension final LaunchedTree tree = new LaunchedTree();

  private ExitingController controller(boolean resumes, String moment, String verb)
      throws IOException {
    return ExitingController.start(job.machine(), job.state(), job.pid(), resumes, moment, verb);
  }

  private static void end(ExitingController controller) throws InterruptedException {
    controller.terminate();
    assertEquals(ExitingController.SIGTERM_EXIT, controller.awaitExit(PATIENCE));
  }

  private void assertRuns() throws IOException {
    assertInstanceOf(RunningProcess.class, job.checkpoints().inspect(job.pid()));
    assertEquals(101, job.counter().increment());
    try (Stream<Path> files = Files.list(job.state())) {
      assertEquals(List.of(), files.filter(file -> file.toString().endsWith(".process")).toList());
    }
  }

  @ParameterizedTest
  @CsvSource({"block,suspend", "block,lock"})
  void exitInATryBlockResumes(String moment, String verb) throws Exception {
    try (ExitingController controller = controller(true, moment, verb)) {
      end(controller);
    }
    assertRuns();
  }

  @Test
  void exitWhileTheDriverWaitsForGpuWorkUndoesTheLock() throws Exception {
    job.counter().spin(Duration.ofSeconds(4));
    try (ExitingController controller = controller(true, "lock", "suspend")) {
      end(controller);
    }
    assertRuns();
  }

  @Test
  void exitDuringACheckpointUndoesIt() throws Exception {
    job.machine().faults(Fault.in("cuCheckpointProcessCheckpoint").hangs(Duration.ofSeconds(2)));
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
    ((CheckpointedProcess) job.checkpoints().inspect(job.pid())).resume();
    assertRuns();
  }

  @Test
  void exitLeavesAloneWhatAnotherControllerHasMoved() throws Exception {
    try (ExitingController controller = controller(true, "block", "suspend")) {
      ((CheckpointedProcess) job.checkpoints().inspect(job.pid())).resume();
      job.checkpoints().process(job.pid()).suspend();
      end(controller);
    }
    ((CheckpointedProcess) job.checkpoints().inspect(job.pid())).resume();
    assertRuns();
  }

  @Test
  void exitDoesNotWaitForADriverThatDoesNotAnswer() throws Exception {
    // Longer than a busy machine takes to read a state.
    Duration each = Duration.ofSeconds(5);
    job.machine().faults(Fault.in("cuCheckpointProcessLock").after().hangs());
    try (ExitingController controller =
        ExitingController.start(
            job.machine(), job.state(), job.pid(), true, "lock", "suspend", each)) {
      end(controller);
    }
    job.machine().clearFaults();
    job.checkpoints().recover();
    await()
        .atMost(60, SECONDS)
        .until(() -> job.checkpoints().inspect(job.pid()) instanceof RunningProcess);
    assertRuns();
  }

  @Test
  void stateObjectsAreNotKeptAlive() {
    GpuCheckpoints resuming = job.checkpoints().toBuilder().resumeOnExit(true).build();
    WeakReference<CheckpointedProcess> suspended =
        new WeakReference<>(resuming.process(job.pid()).suspend());
    await()
        .atMost(60, SECONDS)
        .until(
            () -> {
              System.gc();
              return suspended.get() == null;
            });
    ((CheckpointedProcess) job.checkpoints().inspect(job.pid())).resume();
    assertTrue(job.counter().increment() > 100);
  }
}
