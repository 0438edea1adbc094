package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.TreeFailure;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The state of a process after a failed dump, and what the exception says of it. */
@SimulatedGpu(gpus = 2, mebibytes = 2048)
record RunningDumpTest(
    SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter, LaunchedTree tree) {

  /** With a CRIU that cannot dump. */
  private static GpuCheckpoints failing(GpuCheckpoints checkpoints) {
    CriuDriver criu = mock(CriuDriver.class);
    when(criu.dump(any(), any()))
        .thenAnswer(
            call -> {
              int pid = call.<DumpRequest>getArgument(0).process().pid();
              throw new ImageException(
                  ImageException.Reason.UNWRITABLE,
                  "it cannot be dumped",
                  Failure.of("dump", pid),
                  null);
            });
    return checkpoints.toBuilder().criu(criu).build();
  }

  private Path image() {
    return machine.directory().resolve("image");
  }

  private static void assertLeft(
      GpuCheckpointException failed, ProcessState before, ProcessState after, String where) {
    assertEquals(before, failed.failure().before());
    assertEquals(after, failed.failure().after());
    assertTrue(failed.failure().elapsed().toNanos() > 0);
    String message = String.valueOf(failed.getMessage());
    assertTrue(message.endsWith("; " + where), message);
  }

  private void assertRuns(int next) {
    assertInstanceOf(RunningProcess.class, checkpoints.inspect(counter.pid()));
    assertEquals(next, counter.increment());
    assertTrue(Files.notExists(image()));
  }

  @Test
  void dumpOfARunningProcessThatFailsResumesIt() {
    RunningProcess running = failing(checkpoints).process(counter.pid());
    ImageException failed = assertThrows(ImageException.class, () -> running.dump(image()));
    String again = "pid " + counter.pid() + " is running again";
    assertLeft(failed, ProcessState.RUNNING, ProcessState.RUNNING, again);
    assertRuns(101);
    failed = assertThrows(ImageException.class, () -> running.snapshot(image()));
    assertLeft(failed, ProcessState.RUNNING, ProcessState.RUNNING, again);
    assertRuns(102);
  }

  @Test
  void dumpThatCannotBeMadeIsRefusedWhileTheProcessRuns() throws IOException {
    Files.createDirectory(image());
    Files.createFile(image().resolve("other"));
    RunningProcess running = failing(checkpoints).process(counter.pid());
    ImageException failed =
        assertReason(
            ImageException.class, ImageException.Reason.DIRECTORY, () -> running.dump(image()));
    assertLeft(
        failed,
        ProcessState.RUNNING,
        ProcessState.RUNNING,
        "pid " + counter.pid() + " is still running");
    Files.delete(image().resolve("other"));
    Files.delete(image());
    assertRuns(101);
  }

  @Test
  @RequiresRoot("mounts a file system")
  void dumpWithoutSpaceForTheDirectoriesAboveSaysThatTheDiskIsFull() throws IOException {
    Path point = Files.createDirectory(machine.directory().resolve("few"));
    try (TmpFs few = TmpFs.mount(point, "size=512m,nr_inodes=2,mode=0700")) {
      Path image = few.point().resolve("above/images/image");
      GpuCheckpoints failing = failing(checkpoints);
      RunningProcess running = failing.process(counter.pid());
      ImageException failed =
          assertReason(
              ImageException.class, ImageException.Reason.DISK_FULL, () -> running.dump(image));
      assertLeft(
          failed,
          ProcessState.RUNNING,
          ProcessState.RUNNING,
          "pid " + counter.pid() + " is running again");
      assertReason(
          ImageException.class,
          ImageException.Reason.DISK_FULL,
          () -> failing.store(few.point().resolve("above/store")).dump(running));
    }
    assertRuns(101);
  }

  @Test
  void dumpOfASuspendedProcessThatFailsSaysThatItIsSuspended() {
    CheckpointedProcess suspended = failing(checkpoints).process(counter.pid()).suspend();
    ImageException failed = assertThrows(ImageException.class, () -> suspended.dump(image()));
    assertLeft(
        failed,
        ProcessState.CHECKPOINTED,
        ProcessState.CHECKPOINTED,
        "pid %s is still suspended; GpuProcess.inspect(%s) finds it"
            .formatted(counter.pid(), counter.pid()));
    suspended.resume();
    assertRuns(101);
  }

  /** The rollback fails as well: the exception says where the process can be found. */
  @Test
  void processThatCannotBeResumedIsSuspendedWhereItIsFound() {
    machine.faults(Fault.in("cuCheckpointProcessRestore").answers(999));
    RunningProcess running = failing(checkpoints).process(counter.pid());
    ImageException failed = assertThrows(ImageException.class, () -> running.dump(image()));
    assertLeft(
        failed,
        ProcessState.RUNNING,
        ProcessState.CHECKPOINTED,
        "pid %s is suspended; GpuProcess.inspect(%s) finds it"
            .formatted(counter.pid(), counter.pid()));
    assertEquals(1, failed.getSuppressed().length);
    machine.clearFaults();
    ((CheckpointedProcess) checkpoints.inspect(counter.pid())).resume();
    assertRuns(101);
  }

  @Test
  void dumpOfARunningJobThatFailsResumesAllMembers() {
    Job launched = tree.launch(0);
    RunningProcess running = failing(tree.checkpoints()).process(launched.pid());
    ImageException failed =
        assertThrows(ImageException.class, () -> running.dump(tree.directory().resolve("image")));
    assertEquals(ProcessState.RUNNING, failed.failure().before());
    assertEquals(ProcessState.RUNNING, failed.failure().after());
    TreeFailure left = failed.tree().orElseThrow();
    assertEquals(
        List.of(ProcessState.RUNNING, ProcessState.RUNNING, ProcessState.RUNNING),
        List.copyOf(left.members().values()));
    assertTrue(String.valueOf(failed.getMessage()).endsWith("(" + left + ")"), failed::getMessage);
    LaunchedTree.assertGoesOn(launched, LaunchedTree.MEMBERS);
    assertEquals(0, tree.entries());
  }

  @Test
  void dumpThatWouldLeaveTheProcessIsNoDump() {
    RunningProcess running = failing(checkpoints).process(counter.pid());
    for (DumpOptions stays :
        List.of(
            DumpOptions.builder().leaveRunning(true).build(),
            DumpOptions.builder().leaveStopped(true).build())) {
      assertThrows(IllegalArgumentException.class, () -> running.dump(image(), stays));
    }
    assertRuns(101);
  }
}
