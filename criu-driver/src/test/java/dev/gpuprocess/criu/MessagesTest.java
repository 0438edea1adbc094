package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.internal.log.Hints;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.StepListener;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Each message names the event and the remedy. */
@OutsideUse("B6")
class MessagesTest {

  private static final int CUDA_ERROR_UNKNOWN = 999;
  private static final int CUDA_ERROR_NOT_READY = 600;

  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;

  @BeforeEach
  void buildMachine() {
    RealCriu.assume();
    machine = SimulatedDriver.builder().memory(1L << 30).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(directory.resolve("state"))
            .build();
  }

  @AfterEach
  void removeMachine() {
    if (machine != null) {
      machine.close();
    }
  }

  private static void assertSays(Throwable failure, String... words) {
    String message = String.valueOf(failure.getMessage());
    for (String word : words) {
      assertTrue(message.contains(word), () -> word + " is missing in: " + message);
    }
    assertFalse(message.matches(".*\\bPT[0-9].*"), message);
  }

  @Test
  void aLockThatTookTooLong_namesItsTimeout() {
    try (Counter counter = Counter.start(machine)) {
      machine.faults(Fault.in("cuCheckpointProcessLock").answers(CUDA_ERROR_NOT_READY));
      LockTimeoutException e =
          assertThrows(
              LockTimeoutException.class,
              () -> checkpoints.process(counter.pid()).lock(Duration.ofMillis(1500)));
      assertSays(e, "the lock's timeout of 1.5 s", "it continues to run");
    }
  }

  @Test
  void aRefusedSuspend_doesNotSayThatItStaysLocked() {
    try (Counter counter = Counter.start(machine)) {
      counter.allocateManaged();
      ProcessUnfitException e =
          assertReason(
              ProcessUnfitException.class,
              ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
              () -> checkpoints.process(counter.pid()).suspend());
      assertSays(e, "managed memory", "run it without that");
      assertFalse(String.valueOf(e.getMessage()).contains("stays locked"), e::getMessage);
      assertEquals("RunningProcess", checkpoints.inspect(counter.pid()).getClass().getSimpleName());
    }
  }

  @Test
  void anUnknownAnswer_isNotCalledManagedMemoryForCertain() {
    try (Counter counter = Counter.start(machine)) {
      machine.faults(Fault.in("cuCheckpointProcessCheckpoint").answers(CUDA_ERROR_UNKNOWN));
      GpuCheckpointException e =
          assertThrows(
              GpuCheckpointException.class, () -> checkpoints.process(counter.pid()).suspend());
      assertSays(e, "CUDA_ERROR_UNKNOWN", "to checkpoint of process " + counter.pid(), "dmesg");
      machine.faults(
          Fault.in("cuCheckpointProcessCheckpoint").during().answers(CUDA_ERROR_UNKNOWN));
      GpuCheckpointException failed =
          assertThrows(
              GpuCheckpointException.class, () -> checkpoints.process(counter.pid()).suspend());
      assertSays(failed, "CUDA_ERROR_UNKNOWN", "which is FAILED now");
      assertFalse(String.valueOf(failed.getMessage()).contains("managed"), failed::getMessage);
    }
  }

  @Test
  void theProcessOfTheImage_isNoStranger() {
    try (Counter counter = Counter.start(machine)) {
      ProcessImage image = checkpoints.process(counter.pid()).snapshot(directory.resolve("image"));
      PidTakenException e = assertThrows(PidTakenException.class, image::restore);
      assertSays(
          e, "pid " + counter.pid(), "in use by the process of this image", "continue with it");
    }
  }

  @Test
  void aLibraryThatIsNoDriver_isNotCalledAnOldOne() throws IOException {
    Path lib = Files.createDirectory(directory.resolve("lib"));
    Path libm = Path.of("/lib/" + System.getProperty("os.arch").replace("amd64", "x86_64"));
    libm = Path.of(libm + "-linux-gnu/libm.so.6");
    org.junit.jupiter.api.Assumptions.assumeTrue(Files.exists(libm), "no libm where Debian has it");
    Files.createSymbolicLink(lib.resolve("libcuda.so.1"), libm);
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.NO_CUDA_DRIVER,
            () -> LibCuda.in(lib).version());
    assertSays(e, lib + "/libcuda.so.1 is not an NVIDIA driver");
    assertReason(
        MachineUnfitException.class,
        MachineUnfitException.Reason.NO_CUDA_DRIVER,
        () -> LibCuda.in(lib).getState(1));
  }

  @Test
  void placesThatHoldNoImage_areNamedAsThat() {
    try (Counter counter = Counter.start(machine);
        CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend()) {
      assertSays(
          assertReason(
              ImageException.class,
              ImageException.Reason.DIRECTORY,
              () -> suspended.dump(Path.of("/"))),
          "/ is not a name for an image");
      assertSays(
          assertReason(
              ImageException.class,
              ImageException.Reason.DIRECTORY,
              () -> suspended.dump(Path.of("/proc/image"))),
          "/proc is on a file system that stores nothing");
    }
  }

  @Test
  void aListenerThatTakesAllTheTime_isNotTheDisk() {
    Duration deadline = Duration.ofMillis(12_200);
    AtomicReference<Long> begun = new AtomicReference<>();
    GpuCheckpoints slow =
        checkpoints.toBuilder()
            .listener(
                new StepListener() {
                  @Override
                  public void started(String name, int pid) {
                    if (name.equals("dump")) {
                      begun.set(System.nanoTime());
                    }
                    if (name.equals("seal")) {
                      long end = begun.get() + deadline.toNanos();
                      Workload.await(() -> System.nanoTime() > end, "the deadline to pass");
                    }
                  }
                })
            .build();
    try (Counter counter = Counter.start(machine);
        CheckpointedProcess suspended = slow.process(counter.pid()).suspend()) {
      OperationTimedOutException e =
          assertThrows(
              OperationTimedOutException.class,
              () ->
                  suspended.dump(
                      directory.resolve("image"),
                      DumpOptions.builder().deadline(deadline).build()));
      assertSays(e, "12.2 s");
      assertFalse(String.valueOf(e.getMessage()).contains("check the disk"), e::getMessage);
    }
  }

  @Test
  void aSecondDump_namesTheFirst() {
    RpcCriuDriver criu = new RpcCriuDriver();
    DumpOptions stays =
        DumpOptions.builder().leaveRunning(true).deadline(Duration.ofSeconds(30)).build();
    try (Workload workload = Workload.counter(directory)) {
      AtomicReference<Throwable> second = new AtomicReference<>();
      criu.dump(
          request(workload, "first", stays),
          new DumpListener() {
            @Override
            public void postDump() {
              second.set(
                  assertThrows(
                      CriuException.class,
                      () -> criu.dump(request(workload, "second", stays), DumpListener.NONE)));
            }
          });
      assertSays(
          second.get(),
          "another dump of it is running, by process",
          "(CRIU) of process " + ProcessHandle.current().pid(),
          "wait until that dump has ended");
    }
  }

  private DumpRequest request(Workload workload, String name, DumpOptions options) {
    try {
      Path place = Files.createDirectory(directory.resolve(name));
      return new DumpRequest(
          workload.identity(),
          Files.createDirectory(place.resolve("images")),
          Files.createDirectory(place.resolve("work")),
          options);
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void whoHasOnlyTheJar_isToldWhereTheScriptIs_andWhatElseHelps() {
    RpcCriuDriver none = new RpcCriuDriver(directory.resolve("none"));
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class, MachineUnfitException.Reason.NO_CRIU, none::version);
    assertSays(
        e,
        "install CRIU",
        "bin/criu in the sources of this library",
        "github.com/checkpoint-restore/criu",
        CriuLocator.VARIABLE);
  }

  @Test
  void whatCriuSays_hasACure() {
    Map.of(
            "BUG! Unknown socket collected (family 38)", "AF_ALG",
            "OOM storing pipe", "1024 pipes")
        .forEach(
            (error, cure) ->
                assertTrue(Hints.of("dump", List.of(error)).orElse("").contains(cure)));
    Map.of(
            "File tmp/x has bad size 3 (expect 4)", "put the old version back",
            "mnt: BUG at criu/mount.c:48", "CriuOptions.set(\"root=/\")")
        .forEach(
            (error, cure) ->
                assertTrue(Hints.of("restore", List.of(error)).orElse("").contains(cure)));
  }

  @Test
  @OutsideUse("B5")
  void onlyWhatCriuFailedAt_isBlamed() {
    try (dev.gpuprocess.fixtures.Workload idle = dev.gpuprocess.fixtures.Workload.idle()) {
      idle.ask("open /dev/fuse");
      idle.ask("lock " + directory.resolve("file"));
      ProcessIdentity identity = ProcessIdentity.of(idle.pid()).orElseThrow();
      RpcCriuDriver criu = new RpcCriuDriver();
      DumpOptions stays =
          DumpOptions.builder().leaveRunning(true).deadline(Duration.ofSeconds(30)).build();
      assertEquals(
          2, criu.preflight(identity, stays).stream().filter(found -> found.isProblem()).count());
      CriuException e =
          assertReason(
              CriuException.class,
              CriuException.Reason.UNSUPPORTED_RESOURCE,
              () -> {
                Path images = Files.createDirectory(directory.resolve("images"));
                Path work = Files.createDirectory(directory.resolve("work"));
                criu.dump(new DumpRequest(identity, images, work, stays), DumpListener.NONE);
              });
      List<String> blamed = e.resources().stream().map(UnsupportedResource::name).toList();
      assertEquals(1, blamed.size(), e::getMessage);
    }
  }
}
