package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Step;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Dumps of a running process as one operation with real CRIU: success, failure, exit of the JVM.
 */
class DumpOfRunningTest {

  @TempDir Path directory;
  private SimulatedMachine machine;
  private Subject subject;

  @BeforeEach
  void start() {
    RealCriu.assume();
    machine = new SimulatedMachine(directory);
    subject = Subject.start(machine.driver);
  }

  @AfterEach
  void end() {
    if (subject != null) {
      subject.close();
      machine.close();
    }
  }

  private void assertRunsOn() {
    assertInstanceOf(RunningProcess.class, machine.checkpoints().inspect(subject.pid()));
    assertEquals(Optional.empty(), subject.fault());
    assertEquals(List.of(), machine.journal());
    assertEquals(List.of(), SimulatedMachine.names(machine.images()));
  }

  private void assertComesBack() {
    ProcessImage image = machine.checkpoints().open(machine.image());
    image.verify();
    image.restore().resume();
    assertEquals(Optional.empty(), subject.faultOfEarlier());
  }

  @Test
  void theProcessIsGoneAndItsImageComesBack() {
    ProcessImage image = machine.checkpoints().process(subject.pid()).dump(machine.image());
    assertFalse(subject.isAlive());
    assertEquals(List.of(), machine.journal());
    List<String> steps = image.steps().stream().map(Step::name).toList();
    assertTrue(steps.containsAll(List.of("lock", "checkpoint", "dump", "seal")), steps::toString);
    assertComesBack();
  }

  @Test
  void aJobIsGoneAndItsImageComesBack() {
    try (SimulatedMachine other = new SimulatedMachine(directory.resolve("job"), JobSubject.GPUS);
        JobSubject job = JobSubject.start(other.driver)) {
      ProcessImage image = other.checkpoints().process(job.pid()).dump(other.image());
      assertFalse(job.isAlive());
      image.restore().resume();
      assertEquals(Optional.empty(), job.fault());
    }
  }

  /** Cancels a dump when CRIU has written its files. */
  private GpuCheckpoints cancelling(Cancellation cancellation) {
    return machine.checkpoints().toBuilder()
        .criu(
            WatchedCriu.of(
                new RpcCriuDriver(),
                moment -> {
                  if (moment.equals(WatchedCriu.STAGE + "postDump")) {
                    cancellation.cancel();
                  }
                },
                Duration.ofSeconds(30)))
        .build();
  }

  @Test
  void whatFailsInCriuIsResumed() {
    Cancellation cancellation = new Cancellation();
    RunningProcess running = cancelling(cancellation).process(subject.pid());
    DumpOptions options = DumpOptions.builder().cancellation(cancellation).build();
    GpuCheckpointException failed =
        assertThrows(
            OperationCancelledException.class, () -> running.dump(machine.image(), options));
    assertEquals(ProcessState.RUNNING, failed.failure().before());
    assertEquals(ProcessState.RUNNING, failed.failure().after());
    String message = String.valueOf(failed.getMessage());
    assertTrue(message.endsWith("; pid " + subject.pid() + " is running again"), message);
    assertRunsOn();
  }

  @Test
  void aSuspendedProcessWhoseDumpFailsIsSaidToBeSuspended() {
    Cancellation cancellation = new Cancellation();
    CheckpointedProcess suspended = cancelling(cancellation).process(subject.pid()).suspend();
    DumpOptions options = DumpOptions.builder().cancellation(cancellation).build();
    GpuCheckpointException failed =
        assertThrows(
            OperationCancelledException.class, () -> suspended.dump(machine.image(), options));
    assertEquals(ProcessState.CHECKPOINTED, failed.failure().before());
    assertEquals(ProcessState.CHECKPOINTED, failed.failure().after());
    String message = String.valueOf(failed.getMessage());
    assertTrue(
        message.endsWith(
            "; pid %s is still suspended; GpuProcess.inspect(%s) finds it"
                .formatted(subject.pid(), subject.pid())),
        message);
    suspended.resume();
    assertRunsOn();
  }

  @ParameterizedTest
  @EnumSource(
      value = DumpingController.Way.class,
      names = {"SUSPENDED", "RUNNING"})
  void anExitInTheMiddleOfADumpWaitsForIt(DumpingController.Way way) throws Exception {
    DumpingController.run(machine, subject, way);
    assertFalse(subject.isAlive());
    assertComesBack();
  }

  @ParameterizedTest
  @EnumSource(
      value = DumpingController.Way.class,
      names = {"SUSPENDED_AND_CANCELLED", "RUNNING_AND_CANCELLED"})
  void anExitResumesWhatADumpThatFailsLeavesSuspended(DumpingController.Way way) throws Exception {
    DumpingController.run(machine, subject, way);
    assertRunsOn();
  }
}
