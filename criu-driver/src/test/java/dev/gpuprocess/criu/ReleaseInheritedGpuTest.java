package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A trainer that was found running, with loaders that it forked when it used CUDA already. */
@RequiresRoot("traces the loaders")
class ReleaseInheritedGpuTest {

  private static final DumpOptions RELEASE =
      DumpOptions.builder().releaseInheritedGpu(true).build();
  private static final int LOADERS = 4;

  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;
  private Counter trainer;
  private List<Long> loaders;

  @BeforeEach
  void buildMachine() {
    RealCriu.assume();
    machine = SimulatedDriver.builder().memory(1L << 30).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(directory.resolve("state"))
            .build();
    trainer = Counter.start(machine);
  }

  private void forkLoaders() {
    loaders = trainer.forkLoaders(LOADERS).stream().sorted().toList();
    Assumptions.assumeTrue(
        ProcFs.memory(loaders.get(0)).stream().anyMatch(m -> m.name().contains("/dev/nvidia")),
        "the simulated driver has no device to map here");
  }

  @AfterEach
  void end() {
    if (trainer != null) {
      trainer.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  private Path image() {
    return directory.resolve("image");
  }

  /** Every loader still answers, and no message was lost or repeated. */
  private void assertTraffic() {
    long before = answered();
    Workload.await(() -> answered() > before + 5 * LOADERS, "messages");
  }

  private long answered() {
    String[] traffic = trainer.traffic().split(" ");
    assertEquals("0", traffic[1], "wrong answers");
    return Long.parseLong(traffic[0]);
  }

  private static Step release(List<Step> steps) {
    return steps.stream().filter(step -> step.name().equals("release")).findFirst().orElseThrow();
  }

  private static String note(int children, int descriptors) {
    return "forked children: %s; descriptors dropped: %s; mappings dropped: %s"
        .formatted(children, descriptors * children, children);
  }

  @Test
  void loadersGoOnAfterDumpAndRestore() {
    trainer.pollNvml(); // as NCCL does: the loaders have that loaded too, and what it opened
    forkLoaders();
    assertTraffic();
    assertEquals(101, trainer.increment());
    CheckpointedProcess suspended = checkpoints.process(trainer.pid()).suspend();
    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.CUDA_CHILD,
            () -> suspended.dump(image()));
    assertTrue(
        loaders.stream().anyMatch(loader -> e.getMessage().contains("child " + loader + " ")),
        e.getMessage());
    assertTrue(e.getMessage().contains("GpuProcess.launch"), e.getMessage());
    assertTrue(e.getMessage().contains("DumpOptions.releaseInheritedGpu"), e.getMessage());

    ProcessImage image = suspended.dump(image(), RELEASE);

    assertEquals(note(LOADERS, 3), release(image.steps()).note());
    assertFalse(trainer.isAlive());
    image.restore().resume();
    assertEquals(
        loaders,
        ProcFs.descendants(trainer.pid()).stream().map(Integer::longValue).sorted().toList());
    assertTraffic();
    assertEquals(102, trainer.increment());
  }

  @Test
  void loadersOfAJobGoOnAfterDumpAndRestore() {
    forkLoaders();
    assertTraffic();
    CheckpointedProcess suspended = checkpoints.process(trainer.pid()).suspend();
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.CUDA_CHILD,
        () -> suspended.dump(image()));
    ProcessImage image = suspended.dump(image(), RELEASE);
    assertEquals(note(LOADERS, 2), release(image.steps()).note());
    assertFalse(trainer.isAlive());
    image.restore().resume();
    assertTraffic();
    assertEquals(101, trainer.increment());
  }

  @Test
  void aSnapshotReleasesThemBeforeThePauseAndTheNextFindsNothing() {
    forkLoaders();
    ProcessImage first = checkpoints.process(trainer.pid()).snapshot(image(), RELEASE);

    assertEquals("release", first.steps().get(0).name());
    assertEquals(note(LOADERS, 2), first.steps().get(0).note());
    assertTraffic();
    ProcessImage second =
        checkpoints.process(trainer.pid()).snapshot(directory.resolve("next"), RELEASE);
    assertFalse(second.steps().stream().anyMatch(step -> step.name().equals("release")));
    assertTraffic();
    assertEquals(101, trainer.increment());
  }

  @Test
  void aChildThatCannotLoseThemIsNamedAndNothingIsLost() {
    forkLoaders();
    long child = trainer.fork("seccomp");
    CheckpointedProcess suspended = checkpoints.process(trainer.pid()).suspend();

    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.CUDA_CHILD,
            () -> suspended.dump(image(), RELEASE));

    assertTrue(e.getMessage().contains("child " + child), e.getMessage());
    assertTrue(e.getMessage().contains("seccomp forbids dup3"), e.getMessage());
    suspended.resume();
    assertTraffic();
    assertEquals(101, trainer.increment());
  }

  @Test
  void aSnapshotIsRefusedBeforeTheProcessLeavesItsGpu() {
    forkLoaders();
    long child = trainer.fork("nvml");

    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.CUDA_CHILD,
            () -> checkpoints.process(trainer.pid()).snapshot(image(), RELEASE));

    assertTrue(e.getMessage().contains("child " + child), e.getMessage());
    assertEquals(101, trainer.increment());
    assertTraffic();
  }

  @Test
  void aChildThatEndsMeanwhileIsNoHindrance() {
    forkLoaders();
    ProcessIdentity ending = ProcessIdentity.of(trainer.fork("plain")).orElseThrow();
    StepListener killer =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            if (name.equals("release")) {
              Workload.end(ending);
            }
          }
        };

    ProcessImage image =
        checkpoints.toBuilder()
            .listener(killer)
            .build()
            .process(trainer.pid())
            .suspend()
            .dump(image(), RELEASE);

    assertEquals(note(LOADERS, 2), release(image.steps()).note());
    image.restore().resume();
    assertTraffic();
    assertEquals(101, trainer.increment());
  }
}
