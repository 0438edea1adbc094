package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.options.Timeouts;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The verbs that are refused while CRIU works on a process. */
class OneAtATimeTest {

  private static final Duration MOMENT = Duration.ofSeconds(10);

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

  private ProcessImage image(String name) {
    return machine
        .checkpoints()
        .process(subject.pid())
        .suspend()
        .dump(machine.images().resolve(name));
  }

  /** Runs an action when CRIU reaches a stage. */
  private GpuCheckpoints duringStage(String stage, Runnable action) {
    Consumer<String> moments =
        moment -> {
          if (moment.equals(WatchedCriu.STAGE + stage)) {
            action.run();
          }
        };
    return machine.checkpoints().toBuilder()
        .criu(WatchedCriu.of(new RpcCriuDriver(), moments, Duration.ofMinutes(2)))
        .build();
  }

  @Test
  void restore_sameImageIsBeingRestored_refused() {
    Path image = image("image").directory();
    CheckpointedProcess restored =
        duringStage(
                "preRestore",
                () ->
                    assertThrows(
                        OperationInProgressException.class,
                        () -> machine.checkpoints().open(image).restore()))
            .open(image)
            .restore();
    restored.resume();
    assertEquals(Optional.empty(), subject.fault());
  }

  private GpuCheckpoints impatient(CudaDriver driver) {
    return machine.checkpoints().toBuilder()
        .cuda(driver, LibNvml.in(machine.driver.directory()))
        .timeouts(Timeouts.builder().lock(MOMENT).call(MOMENT).transfer(MOMENT).build())
        .build();
  }

  /** The driver must not be called for a process that CRIU has stopped. */
  private CudaDriver unasked(AtomicInteger asked) {
    CudaDriver driver = LibCuda.in(machine.driver.directory());
    return (CudaDriver)
        Proxy.newProxyInstance(
            CudaDriver.class.getClassLoader(),
            new Class<?>[] {CudaDriver.class},
            (proxy, method, args) -> {
              if (method.getName().equals("getState")) {
                asked.incrementAndGet();
              }
              return method.invoke(driver, args);
            });
  }

  private void readsNothing(GpuCheckpoints reader, AtomicInteger asked, String verb) {
    OperationInProgressException busy =
        assertThrows(OperationInProgressException.class, () -> reader.inspect(subject.pid()));
    assertTrue(busy.getMessage().contains("in the middle of " + verb + " by"), busy.getMessage());
    assertTrue(reader.doctor(subject.pid()).toString().contains(verb));
    assertEquals(0, asked.get(), "calls of getState");
  }

  @Test
  @OutsideUse("A3")
  void inspect_criuIsDumping_driverIsNotAskedAndTheReaderIsTold() {
    AtomicInteger asked = new AtomicInteger();
    GpuCheckpoints reader = impatient(unasked(asked));
    List<String> seen = new ArrayList<>();
    duringStage(
            "postDump",
            () -> {
              readsNothing(reader, asked, "snapshot");
              seen.add("snapshot");
            })
        .process(subject.pid())
        .snapshot(machine.image());
    assertEquals(List.of("snapshot"), seen);
    assertInstanceOf(RunningProcess.class, reader.inspect(subject.pid()));
    assertEquals(Optional.empty(), subject.fault());
  }

  @Test
  @OutsideUse("A3")
  void inspect_criuIsRestoring_driverIsNotAskedAndTheReaderIsTold() {
    AtomicInteger asked = new AtomicInteger();
    GpuCheckpoints reader = impatient(unasked(asked));
    Path image = image("image").directory();
    List<String> seen = new ArrayList<>();
    duringStage(
            "postRestore",
            () -> {
              readsNothing(reader, asked, "restore");
              seen.add("restore");
            })
        .open(image)
        .restore()
        .resume();
    assertEquals(List.of("restore"), seen);
    assertInstanceOf(RunningProcess.class, reader.inspect(subject.pid()));
    assertEquals(Optional.empty(), subject.fault());
  }

  private List<Path> removedBut(int keep) {
    return machine
        .checkpoints()
        .store(machine.images())
        .prune(RetentionPolicy.builder().keepLast(keep).build())
        .removed();
  }

  @Test
  void prune_olderImageIsBeingRestored_sparedAndAfterwardsRemoved() {
    Path old = image("old").directory();
    machine.checkpoints().open(old).restore().resume();
    image("newest");
    CheckpointedProcess restored =
        duringStage("preRestore", () -> assertEquals(List.of(), removedBut(1))).open(old).restore();
    restored.resume();
    assertEquals(Optional.empty(), subject.fault());
    assertEquals(List.of(old), removedBut(1));
    assertEquals(List.of("newest"), SimulatedMachine.names(machine.images()));
  }

  /** Reading whole images takes long, and does not end on a disk that hangs. */
  @Test
  @OutsideUse("A20")
  void prune_processIsAtWork_doneWithoutItsLock() {
    Path old = image("old").directory();
    machine.checkpoints().open(old).restore().resume();
    ProcessImage newer = image("newest");
    machine.checkpoints().open(newer.directory()).restore().resume();
    List<Path> removed = new ArrayList<>();
    duringStage("postDump", () -> removed.addAll(removedBut(1)))
        .process(subject.pid())
        .snapshot(machine.image());
    assertEquals(List.of(old), removed);
    assertEquals(Optional.empty(), subject.fault());
  }
}
