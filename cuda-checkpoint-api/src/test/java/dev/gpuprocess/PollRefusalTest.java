package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Step;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A process that polls the driver, and whose polls cannot be made to wait, is not checkpointed. */
@RequiresRoot("traces other processes")
@SimulatedGpu
@Tag("slow")
record PollRefusalTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {

  private static final Duration PATIENCE = Duration.ofMinutes(3);

  private Counter start(int pollers) {
    return machine.start(Counter.launch().polling(pollers).notOurChild());
  }

  private static void set(Counter process, String setting) {
    String answer = process.ask("setting " + setting);
    assumeTrue(answer.equals("ok"), () -> "the kernel has no " + setting + ": " + answer);
  }

  @ParameterizedTest
  @CsvSource({"mdwe, PR_SET_MDWE", "seccomp, seccomp"})
  void confinedPoller_isRefusedBeforeItIsTouched(String setting, String cause) {
    try (Counter process = start(10)) {
      set(process, setting);
      assertRefused(process, cause);
      checkpoints.process(process.pid()).lock(PATIENCE).unlock();
      assertEquals(101, process.increment());
    }
  }

  @Test
  void tracedPoller_isRefusedWhileItIsTraced() {
    try (Counter process = start(10);
        Workload debugger = Workload.idle()) {
      for (ProcStat thread : ProcFs.tasks(process.pid())) {
        assertEquals("1", debugger.ask("trace " + thread.pid()));
      }
      assertRefused(process, "detach the debugger");
      debugger.kill();
      checkpoints.process(process.pid()).suspend().resume();
      assertEquals(101, process.increment());
    }
  }

  private void assertRefused(Counter process, String cause) {
    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.POLLS,
            () -> checkpoints.process(process.pid()).suspend());
    assertTrue(e.getMessage().contains(cause), e.getMessage());
    assertTrue(e.getMessage().contains("allowPolls(true)"), e.getMessage());
    assertEquals(ProcessState.RUNNING, checkpoints.inspect(process.pid()).state());
    Finding finding = doctor(checkpoints, process).orElseThrow();
    assertEquals(Finding.Severity.PROBLEM, finding.severity());
    assertTrue(finding.what().contains(cause), finding.what());
    assertTrue(process.isAlive());
    assertEquals(0, process.failedPolls());
  }

  private static Optional<Finding> doctor(GpuCheckpoints controller, Counter process) {
    return controller.doctor(process.pid()).findings().stream()
        .filter(finding -> finding.subject().equals("polls"))
        .findFirst();
  }

  /** A process that was locked by another controller, or began to poll after the lock. */
  @Test
  void lockedPoller_isRefusedAtTheCheckpoint() {
    try (Counter process = start(10)) {
      set(process, "mdwe");
      LockedProcess locked = checkpoints.process(process.pid()).lock(PATIENCE);
      assertReason(
          FixAndRetryException.class, FixAndRetryException.Reason.POLLS, locked::checkpoint);
      ((LockedProcess) checkpoints.inspect(process.pid())).unlock();
      assertEquals(101, process.increment());
    }
  }

  /** The process then dies, as it does without this library. */
  @Test
  void allowed_isCheckpointed() {
    try (Counter process = start(10)) {
      set(process, "mdwe");
      GpuCheckpoints allowing = checkpoints.toBuilder().allowPolls(true).build();
      assertEquals(Optional.empty(), doctor(allowing, process));
      suspend(allowing, process);
      await().atMost(PATIENCE.toSeconds(), SECONDS).until(() -> !process.isAlive());
    }
  }

  /** The process may die before the call returns. */
  private static void suspend(GpuCheckpoints controller, Counter process) {
    try {
      String note = note(controller.process(process.pid()).suspend());
      assertTrue(note.startsWith("polls do not wait"), note);
    } catch (FixAndRetryException e) {
      assertTrue(e.reason() != FixAndRetryException.Reason.POLLS, e.getMessage());
    } catch (GpuCheckpointException e) {
      assertTrue(!process.isAlive(), e.getMessage());
    }
  }

  private static String note(CheckpointedProcess suspended) {
    return suspended.steps().stream()
        .filter(step -> step.name().equals("checkpoint"))
        .map(Step::note)
        .findFirst()
        .orElseThrow();
  }

  @Test
  void confinedProcessThatDoesNotPoll_isSuspendedWithANote() {
    try (Counter process = start(0)) {
      set(process, "mdwe");
      assertEquals(Optional.empty(), doctor(checkpoints, process));
      CheckpointedProcess suspended = checkpoints.process(process.pid()).suspend();
      String note = note(suspended);
      assertTrue(note.startsWith("polls do not wait"), note);
      suspended.resume();
      assertEquals(101, process.increment());
    }
  }

  /** Without the right to trace, as under Yama, polls are not seen. */
  @Test
  void controllerThatMayNotTrace_suspendsWithANote() throws Exception {
    List<String> without =
        List.of("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace");
    assumeTrue(
        ProgramRun.of("setpriv", "--bounding-set=-sys_ptrace", "true").run().exit() == 0,
        "setpriv cannot drop capabilities");
    try (Counter process = start(0)) {
      TestJvm.assertEndsSaying(
          "polls do not wait: process %s may not be traced".formatted(process.pid()),
          TestJvm.commandBy(
              without,
              PollRefusalTest.class,
              machine.directory().toString(),
              checkpoints.stateDirectory().toString(),
              Long.toString(process.pid())));
      checkpoints.resume(process.pid());
      assertEquals(101, process.increment());
    }
  }

  /** Suspends a process in a JVM of its own. */
  public static void main(String[] args) {
    GpuCheckpoints here =
        GpuCheckpoints.builder().cuda(Path.of(args[0])).stateDirectory(Path.of(args[1])).build();
    String note = note(here.process(Integer.parseInt(args[2])).suspend());
    System.out.println(note.replaceAll("(?s)(may not be traced).*", "$1"));
  }
}
