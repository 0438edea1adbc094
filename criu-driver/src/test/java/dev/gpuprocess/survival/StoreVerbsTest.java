package dev.gpuprocess.survival;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Dumps and snapshots into a store, and images that are resumed in one step. */
@RequiresRoot("traces the process")
class StoreVerbsTest {

  private static final int MEBIBYTES = 24;
  private static final String OK = "ok " + ((long) MEBIBYTES << 20) + " bytes";
  private static final Duration PATIENCE = Duration.ofSeconds(50);

  @TempDir Path directory;
  private SimulatedMachine machine;
  private Pattern workload;
  private GpuCheckpoints gpus;
  private ImageStore store;

  @BeforeEach
  void start() {
    RealCriu.assume();
    machine = new SimulatedMachine(directory.resolve("machine"));
    workload = Pattern.launch(MEBIBYTES).on(machine.driver).notOurChild().start();
    gpus = machine.checkpoints();
    store = gpus.store(directory.resolve("store"));
  }

  @AfterEach
  void end() {
    if (workload != null) {
      workload.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  private RunningProcess process() {
    return gpus.process(workload.pid());
  }

  private static RestoreOptions verify(Predicate<ProcessIdentity> check, Duration deadline) {
    return RestoreOptions.builder().verify(check, deadline).build();
  }

  @Test
  void snapshotsAndADump_areNamedInOrder() {
    ProcessImage first = store.snapshot(process());
    assertEquals(OK, workload.verify());
    ProcessImage second = store.snapshot(process());
    ProcessImage last = store.dump(process());
    assertFalse(workload.isAlive());
    assertEquals(
        List.of(last.directory(), second.directory(), first.directory()),
        store.list().stream().map(StoredImage::directory).toList());
    assertEquals(last.directory(), store.newestThatVerifies().directory());
    assertEquals(workload.pid(), last.resume().pid());
    assertEquals(OK, workload.verify());
  }

  @Test
  void suspendedProcess_isDumpedAsTheNextImage() {
    ProcessImage snapshot = store.snapshot(process());
    ProcessImage dumped = store.dump(process().suspend(), DumpOptions.ofDefaults());
    assertFalse(workload.isAlive());
    assertEquals(
        List.of(dumped.directory(), snapshot.directory()),
        store.list().stream().map(StoredImage::directory).toList());
    assertTrue(dumped.manifest().created().isAfter(snapshot.manifest().created()));
    assertEquals(workload.pid(), dumped.resume().pid());
    assertEquals(OK, workload.verify());
  }

  @Test
  void storeWithAnotherKey_refusedBeforeAnythingIsTouched() throws IOException {
    Path key = Files.write(directory.resolve("key"), new byte[32]);
    Files.setPosixFilePermissions(key, PosixFilePermissions.fromString("rw-------"));
    GpuCheckpoints signing = gpus.toBuilder().imageKey(key).build();
    ImageStore signed = signing.store(directory.resolve("signed"));
    RunningProcess running = process();
    assertThrows(IllegalArgumentException.class, () -> signed.dump(running));
    assertThrows(IllegalArgumentException.class, () -> signed.snapshot(running));
    try (CheckpointedProcess suspended = running.suspend()) {
      assertThrows(
          IllegalArgumentException.class, () -> signed.dump(suspended, DumpOptions.ofDefaults()));
    }
    assertEquals(List.of(), signed.list());
    assertEquals(OK, workload.verify());
  }

  @Test
  void memoryThatCannotBeReserved_theProcessIsEndedAndTheImageStays() throws IOException {
    ProcessImage image = store.dump(process());
    GpuCheckpoints hasty =
        gpus.toBuilder()
            .timeouts(Timeouts.builder().call(Duration.ofSeconds(10)).memory(Duration.ZERO).build())
            .build();
    NamedLock reservations =
        new StateDirectory(machine.state())
            .lock("gpu-room", "restore", Duration.ofSeconds(30))
            .orElseThrow();
    try {
      ProcessImage again = hasty.open(image.directory());
      assertThrows(OperationInProgressException.class, again::resume);
    } finally {
      reservations.closeAndForget();
    }
    assertTrue(workload.awaitExit(PATIENCE));
    assertEquals(workload.pid(), image.resume().pid());
    assertEquals(OK, workload.verify());
  }

  @Test
  void checkThatHolds_theProcessRuns() {
    ProcessImage image = store.dump(process());
    RunningProcess running =
        image.resume(
            verify(ProcessIdentity::isAlive, Duration.ofSeconds(30)), ResumeOptions.ofDefaults());
    assertEquals(workload.pid(), running.pid());
    assertEquals(OK, workload.verify());
  }

  @Test
  void checkThatFails_theProcessIsEndedAndTheImageStays() {
    ProcessImage image = store.dump(process());
    CountDownLatch never = new CountDownLatch(1);
    List<RestoreOptions> failing =
        List.of(
            verify(process -> false, Duration.ofSeconds(30)),
            verify(
                process -> {
                  throw new IllegalStateException("no answer from the server");
                },
                Duration.ofSeconds(30)),
            verify(
                process -> {
                  try {
                    never.await();
                  } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                  }
                  return true;
                },
                Duration.ofMillis(300)));
    for (RestoreOptions options : failing) {
      FixAndRetryException e =
          assertReason(
              FixAndRetryException.class,
              FixAndRetryException.Reason.CHECK_FAILED,
              () -> image.resume(options, ResumeOptions.ofDefaults()));
      assertTrue(e.getMessage().endsWith("it was ended, and the image stays"), e.getMessage());
      assertTrue(workload.awaitExit(PATIENCE));
    }
    assertEquals(workload.pid(), image.resume().pid());
    assertEquals(OK, workload.verify());
    assertEquals(List.of(), gpus.recover());
  }

  @Test
  void checkThatFailsWhenAnotherControllerHasTheProcess_leavesItAlone() {
    ProcessImage image = store.dump(process());
    RestoreOptions taken =
        verify(
            process -> {
              CheckpointedProcess unused = gpus.process(process.pid()).suspend();
              return false;
            },
            PATIENCE);
    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.CHECK_FAILED,
            () -> image.resume(taken, ResumeOptions.ofDefaults()));
    assertTrue(e.getMessage().contains("it was not ended"), e.getMessage());
    assertInstanceOf(StaleStateException.class, e.getSuppressed()[0]);
    assertEquals(ProcessState.RUNNING, gpus.resume(workload.pid()).state());
    assertEquals(OK, workload.verify());
  }
}
