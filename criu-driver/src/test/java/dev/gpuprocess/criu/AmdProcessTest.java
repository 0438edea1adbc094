package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.AmdImage;
import dev.gpuprocess.AmdProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.FailingCriu;
import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.fixtures.AmdMachine;
import dev.gpuprocess.fixtures.AmdMachine.Failing;
import dev.gpuprocess.fixtures.AmdWorkload;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Dumps and restores of AMD processes, with real CRIU and doubles of its plugin and the GPU. */
@RequiresRoot("makes device files")
@SimulatedGpu(gpus = 2, mebibytes = 2048)
class AmdProcessTest {

  private final LaunchedTree tree;

  AmdProcessTest(LaunchedTree tree) {
    this.tree = tree;
  }

  private final List<Workload> started = new ArrayList<>();
  private AmdMachine machine;
  private AmdWorkload workload;

  @BeforeEach
  void start() {
    RealCriu.assume();
    machine = AmdMachine.in(tree.directory().resolve("amd"));
    workload = machine.launch().start();
    started.add(workload);
  }

  @AfterEach
  void end() {
    started.forEach(Workload::close);
  }

  private RpcCriuDriver criu() {
    return new RpcCriuDriver().withPlugins(machine.plugins());
  }

  /** Without a CUDA driver, unless this machine has one. */
  private GpuCheckpoints checkpoints(CriuDriver criu) {
    return GpuCheckpoints.builder().stateDirectory(tree.state()).criu(criu).build();
  }

  private AmdProcess job() {
    return checkpoints(criu()).amdProcess(workload.pid());
  }

  private AmdImage opened() {
    return checkpoints(criu()).openAmd(image());
  }

  private Path image() {
    return tree.directory().resolve("image");
  }

  private String device(long address) {
    return ProcFs.memory(workload.pid()).stream()
        .filter(mapping -> mapping.start() == address)
        .map(mapping -> mapping.name())
        .findFirst()
        .orElse("");
  }

  private void assertDumpsAndRestores(RpcCriuDriver criu) {
    assertEquals("5", workload.add(5));
    long mapping = workload.mapping();
    AmdImage image = checkpoints(criu).amdProcess(workload.pid()).dump(image());
    assertFalse(workload.isAlive());
    Manifest manifest = image.manifest();
    assertEquals(4, manifest.formatVersion());
    assertEquals("amdgpu_plugin", manifest.plugin());
    assertEquals(List.of("amdgpu_plugin"), image.describe().plugins());

    awaitEnd();
    machine.freeMemoryOfTheDead();
    AmdProcess again = checkpoints(criu).openAmd(image()).restore();
    assertEquals(workload.pid(), again.root().pid());
    assertEquals("7", workload.add(2));
    assertEquals(mapping, workload.mapping());
    assertTrue(mapping == 0 || device(mapping).contains("/dev/dri/renderD"), device(mapping));
    assertEquals(0, tree.entries());
  }

  @Test
  void goesOnAfterDumpAndRestore() {
    assertDumpsAndRestores(criu());
    Path second = tree.directory().resolve("second");
    AmdProcess restored = job();
    AmdImage image = restored.dump(second);
    assertFalse(workload.isAlive());
    assertEquals("8", afterRestore(image));
  }

  /** Its parent reaps it: this JVM, or init if CRIU restored it. */
  private void awaitEnd() {
    assertTrue(workload.awaitExit(Duration.ofSeconds(60)));
  }

  private String afterRestore(AmdImage image) {
    awaitEnd();
    machine.freeMemoryOfTheDead();
    AmdProcess unused = image.restore();
    return workload.add(1);
  }

  @Test
  void carriesATreeWhoseRootDoesNotUseTheGpu() {
    AmdWorkload child = machine.launch().notOurChild().start();
    started.add(child);
    assertEquals("1", child.add(1));
    long root = ProcessHandle.of(child.pid()).flatMap(ProcessHandle::parent).orElseThrow().pid();
    AmdImage image = checkpoints(criu()).amdProcess(root).dump(image());
    assertFalse(child.isAlive());
    assertEquals(root, image.restore().root().pid());
    assertEquals("2", child.add(1));
    assertEquals("1", workload.add(1));
  }

  @Test
  void goesOnAfterDumpAndRestoreByCommand() {
    assertDumpsAndRestores(
        RpcCriuDriver.through(RealCriu.byCommand()).withPlugins(machine.plugins()));
  }

  @Test
  void snapshotLeavesItRunning() {
    assertEquals("3", workload.add(3));
    AmdProcess job = job();
    AmdImage image = job.snapshot(image());
    assertTrue(image.snapshotTimes().isPresent());
    assertEquals("4", workload.add(1));
    image.verify();
    AmdImage kept =
        job.dump(
            tree.directory().resolve("kept"), DumpOptions.builder().leaveRunning(true).build());
    assertEquals("5", workload.add(1));
    workload.kill();
    assertEquals("4", afterRestore(image));
    workload.kill();
    assertEquals("5", afterRestore(kept));
    assertEquals(0, tree.entries());
  }

  /** A resume of a process without members does not fail. */
  @Test
  void snapshotWhoseProcessIsLostKeepsItsImage() {
    assertEquals("1", workload.add(1));
    Cancellation cancellation = new Cancellation();
    GpuCheckpoints losing = checkpoints(losing(cancellation::cancel));
    DumpOptions options = DumpOptions.builder().cancellation(cancellation).build();
    assertThrows(
        NoSuchProcessException.class,
        () -> losing.amdProcess(workload.pid()).snapshot(image(), options));
    assertEquals("2", afterRestore(opened()));
  }

  /** Returns a CRIU that dumps and fails when the process is gone. */
  private CriuDriver losing(Runnable then) {
    return FailingCriu.afterADump(
        criu(),
        workload.pid(),
        Fate.ENDED,
        () -> {
          workload.kill();
          awaitEnd();
          then.run();
        });
  }

  @Test
  void loadsNoOtherPlugin() {
    Path told = tree.directory().resolve("told");
    CriuPlugin.make(machine.plugins(), told);
    assertEquals("1", workload.add(1));
    AmdImage image = job().dump(image());
    assertEquals("2", afterRestore(image));
    assertFalse(Files.exists(told));
  }

  @Test
  void runsOnWhenThePluginFailsToDump() {
    assertEquals("1", workload.add(1));
    machine.fail(Failing.DUMP);
    CriuException e = assertThrows(CriuException.class, () -> job().dump(image()));
    assertEquals(Fate.RUNNING_AGAIN, e.failure().fate());
    assertThrows(CriuException.class, () -> job().snapshot(image()));
    assertReason(ImageException.class, ImageException.Reason.MISSING, this::opened);
    assertEquals("2", workload.add(1));
    machine.fail(Failing.NOTHING);
    assertEquals("3", afterRestore(job().dump(image())));
  }

  @Test
  void leavesNothingWhenThePluginFailsToRestore() {
    assertEquals("1", workload.add(1));
    AmdImage image = job().dump(image());
    machine.fail(Failing.RESTORE);
    assertThrows(CriuException.class, image::restore);
    assertFalse(workload.isAlive());
    machine.fail(Failing.NOTHING);
    assertEquals("2", afterRestore(image));
  }

  @Test
  void tellsWhenTheGpuDoesNotStartAgain() {
    assertEquals("1", workload.add(1));
    AmdImage image = job().dump(image());
    awaitEnd();
    machine.freeMemoryOfTheDead();
    machine.fail(Failing.RESUME);
    CriuException e = assertThrows(CriuException.class, image::restore);
    assertEquals(Fate.RUNNING_AGAIN, e.failure().fate());
    assertTrue(e.getMessage().contains("did not start its GPU again"), e.getMessage());
    assertEquals("stopped", workload.add(1));
    workload.kill();
    machine.fail(Failing.NOTHING);
    assertEquals("2", afterRestore(image));
  }

  @Test
  void needsThePlugin() throws IOException {
    Path none = Files.createDirectory(tree.directory().resolve("none"));
    RpcCriuDriver without = new RpcCriuDriver().withPlugins(none);
    AmdProcess job = checkpoints(without).amdProcess(workload.pid());
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.PLUGIN_MISSING,
            () -> job.dump(image()));
    assertTrue(e.getMessage().contains(none.toString()), e.getMessage());
    assertReason(
        MachineUnfitException.class,
        MachineUnfitException.Reason.PLUGIN_MISSING,
        () -> job.snapshot(image()));
    assertFalse(Files.exists(image()));
    assertEquals("1", workload.add(1));
    AmdImage image = job().dump(image());
    assertReason(
        MachineUnfitException.class,
        MachineUnfitException.Reason.PLUGIN_MISSING,
        checkpoints(without).openAmd(image())::restore);
    assertEquals("2", afterRestore(image));
  }

  @Test
  void loadsNoPluginThatOthersCanChange() throws IOException {
    Files.setPosixFilePermissions(
        machine.plugins().resolve("amdgpu_plugin.so"),
        PosixFilePermissions.fromString("rwxrwxrwx"));
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.PLUGIN_MISSING,
            () -> job().dump(image()));
    assertTrue(e.getMessage().contains("can be written by others"), e.getMessage());
    assertTrue(workload.isAlive());
  }

  @Test
  void runsOnWhenThePluginCannotBeLoaded() throws IOException {
    Files.writeString(machine.plugins().resolve("amdgpu_plugin.so"), "not a library");
    CriuException e = assertThrows(CriuException.class, () -> job().dump(image()));
    assertTrue(e.getMessage().contains("amdgpu_plugin.so"), e.getMessage());
    assertEquals("1", workload.add(1));
  }

  @Test
  void isNoJobOfTheCudaDriver() throws IOException {
    NotCudaProcessException e =
        assertThrows(
            NotCudaProcessException.class, () -> tree.checkpoints().process(workload.pid()));
    assertTrue(e.getMessage().contains("AmdProcess"), e.getMessage());
    assertEquals("1", workload.add(1));

    AmdImage image = job().dump(image());
    ImageException refused =
        assertReason(
            ImageException.class,
            ImageException.Reason.MISMATCH,
            () -> tree.checkpoints().open(image()));
    assertTrue(refused.getMessage().contains("AmdImage.open"), refused.getMessage());
    ImageException none =
        assertReason(
            ImageException.class,
            ImageException.Reason.MISSING,
            () ->
                tree.checkpoints()
                    .store(tree.directory())
                    .restoreNewest(RestoreOptions.ofDefaults(), skipped -> {}));
    assertTrue(none.getMessage().contains("AmdImage.open"), none.getMessage());
    assertFalse(workload.isAlive());
    assertEquals("2", afterRestore(image));
  }

  @Test
  void isNeverCarriedWithoutThePlugin() throws IOException {
    Path images = Files.createDirectories(image().resolve("images"));
    Path work = Files.createDirectories(image().resolve("work"));
    int pid = Math.toIntExact(workload.pid());
    DumpRequest request =
        new DumpRequest(
            ProcessIdentity.of(pid).orElseThrow(), images, work, DumpOptions.ofDefaults());
    assertThrows(CriuException.class, () -> criu().dump(request, DumpListener.NONE));
    assertEquals("1", workload.add(1));

    AmdImage image = job().dump(tree.directory().resolve("whole"));
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.PLUGIN,
            () ->
                criu()
                    .restore(
                        new RestoreRequest(
                            image.directory().resolve("criu"),
                            work,
                            pid,
                            RestoreOptions.ofDefaults()),
                        RestoreListener.NONE));
    assertTrue(e.getMessage().contains("AmdImage"), e.getMessage());
    assertEquals("2", afterRestore(image));
  }

  @Test
  void refusesOtherJobs() {
    Counter counter = Counter.launch().on(tree.machine()).start();
    started.add(counter);
    ProcessUnfitException e =
        assertReason(
            ProcessUnfitException.class,
            ProcessUnfitException.Reason.NOT_AMD,
            () -> checkpoints(criu()).amdProcess(counter.pid()));
    assertTrue(e.getMessage().contains("GpuProcess.of"), e.getMessage());

    ProcessImage plain = tree.checkpoints().process(counter.pid()).suspend().dump(image());
    ImageException refused =
        assertReason(ImageException.class, ImageException.Reason.MISMATCH, this::opened);
    assertTrue(refused.getMessage().contains("ProcessImage.open"), refused.getMessage());
    plain.restore().resume();
    String unused = counter.ask("open " + machine.directory().resolve("dev/kfd"));
    e =
        assertReason(
            ProcessUnfitException.class,
            ProcessUnfitException.Reason.NOT_AMD,
            () -> checkpoints(criu()).amdProcess(counter.pid()));
    assertTrue(e.getMessage().contains("/dev/nvidia"), e.getMessage());
    tree.checkpoints().process(counter.pid()).suspend();
    e =
        assertReason(
            ProcessUnfitException.class,
            ProcessUnfitException.Reason.NOT_AMD,
            () -> tree.checkpoints().amdProcess(counter.pid()));
    assertTrue(e.getMessage().contains("has CUDA state"), e.getMessage());
  }

  @Test
  void doctorSaysWhatItIs() {
    Diagnosis diagnosis = checkpoints(criu()).doctor(workload.pid());
    assertTrue(diagnosis.isHealthy(), diagnosis::toString);
    assertTrue(diagnosis.toString().contains("it is an AMD process"), diagnosis::toString);
    assertTrue(
        diagnosis.toString().contains(machine.plugins().resolve("amdgpu_plugin.so").toString()),
        diagnosis::toString);
    String ofMachine = checkpoints(criu()).doctor().toString();
    assertTrue(ofMachine.contains("CRIU's plugin for them is " + machine.plugins()), ofMachine);
    RpcCriuDriver without = new RpcCriuDriver().withPlugins(image());
    assertFalse(checkpoints(without).doctor(workload.pid()).isHealthy());
  }
}
