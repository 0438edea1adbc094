package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;

/** A process whose first thread has ended, which the kernel shows as a zombie, lives. */
@OutsideUse("A7")
@SimulatedGpu
class FirstThreadEndedTest {

  private final SimulatedDriver machine;
  private final GpuCheckpoints checkpoints;
  private final Counter counter;

  FirstThreadEndedTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {
    this.machine = machine;
    this.checkpoints = checkpoints;
    counter = machine.start(Counter.launch().firstThreadEnds());
    Path stat = Path.of("/proc", Long.toString(counter.pid()), "stat");
    await().atMost(20, SECONDS).until(() -> Files.readString(stat).contains(") Z "));
  }

  @Test
  void suspendAndResume_goThrough() {
    assertEquals(101, counter.increment());
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    assertEquals(ProcessState.CHECKPOINTED, checkpoints.inspect(counter.pid()).state());
    suspended.resume();
    assertEquals(102, counter.increment());
  }

  @Test
  void close_bringsItBack() {
    checkpoints.process(counter.pid()).suspend().close();
    assertEquals(ProcessState.RUNNING, checkpoints.inspect(counter.pid()).state());
    assertEquals(101, counter.increment());
  }

  @Test
  void recover_ofADeadController_findsIt() throws IOException {
    machine.faults(Fault.in("cuCheckpointProcessLock").pid(counter.pid()).call(1).hangs());
    OtherController other =
        OtherController.locking(machine, machine.stateDirectory(), counter.pid());
    other.close();
    machine.clearFaults();
    List<Recovered> recovered = checkpoints.recover();
    assertEquals(1, recovered.size(), recovered::toString);
    assertEquals(RecoveryOutcome.RUNNING, recovered.get(0).outcome());
    checkpoints.process(counter.pid()).suspend();
    assertEquals(RecoveryOutcome.IN_USE, checkpoints.recover().get(0).outcome());
    assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(counter.pid())).resume();
  }

  @Test
  void whatItHasIsSeen() {
    long child = counter.fork();
    assertEquals(List.of((int) child), ProcFs.descendants(counter.pid()));
    ProcStat stat = ProcFs.stat(counter.pid()).orElseThrow();
    assertTrue(stat.firstThreadEnded());
    assertEquals(OptionalInt.of((int) counter.pid()), ProcFs.innermostPid(counter.pid()));
    assertFalse(stat.isDead());
    assertTrue(ProcessIdentity.of(counter.pid()).orElseThrow().isAlive());
    assertFalse(GpuHandles.of((int) counter.pid(), () -> {}).isEmpty());
    assertTrue(ProcFs.anonymousBytes(counter.pid()) > 0);
    assertFalse(ProcFs.commandLine(counter.pid()).isEmpty());
    assertFalse(ProcFs.isEnding(counter.pid()));
    assertTrue(
        checkpoints.gpus().gpus().orElseThrow().stream()
            .flatMap(gpu -> gpu.users().stream())
            .map(Gpu.User::pid)
            .anyMatch(pid -> pid == counter.pid()));
    counter.endChild();
  }

  @Test
  void end_ofAll_isSeen() {
    ProcessIdentity identity = ProcessIdentity.of(counter.pid()).orElseThrow();
    counter.kill();
    assertFalse(identity.isAlive());
    assertTrue(ProcFs.isEnding(identity.pid()));
  }
}
