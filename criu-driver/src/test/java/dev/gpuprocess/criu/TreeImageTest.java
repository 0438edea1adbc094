package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static dev.gpuprocess.cuda.ProcessState.CHECKPOINTED;
import static dev.gpuprocess.cuda.ProcessState.RUNNING;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.contract.SaveAreaMemory;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.image.ImageProcess;
import dev.gpuprocess.image.ImageProcess.Role;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessMember;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Dumps and restores of trees, with real CRIU and the simulated driver. */
@SimulatedGpu(gpus = 2, mebibytes = 2048)
class TreeImageTest {

  private static final int MEMBERS = LaunchedTree.MEMBERS;

  private final LaunchedTree tree;

  TreeImageTest(LaunchedTree tree) {
    this.tree = tree;
  }

  @BeforeEach
  void findCriu() {
    RealCriu.assume();
    // The driver hook is not used for less GPU memory.
    tree.machine()
        .reconfigure(SimulatedDriver.builder().gpus(2).memory(2L << 30).contextMemory(256L << 20));
  }

  private GpuCheckpoints checkpoints() {
    return tree.checkpoints().toBuilder()
        .hostMemory(HostMemory.in(SaveAreaMemory.directory()))
        .build();
  }

  private Path image() {
    return tree.directory().resolve("image");
  }

  private CheckpointedProcess suspended(Job job) {
    return checkpoints().process(job.pid()).suspend();
  }

  private void assertRuns(Job job) {
    assertEquals(Collections.nCopies(MEMBERS, RUNNING), tree.states(job, MEMBERS));
    LaunchedTree.assertGoesOn(job, MEMBERS);
    assertEquals(0, tree.entries(), "a running job leaves no entries");
  }

  @Test
  void goesOnAfterDumpAndRestoreWithEveryMessage() {
    Job job = tree.launch(4);
    List<Integer> members = List.of(job.member(0), job.member(1), job.member(2));
    ProcessImage image = suspended(job).dump(image());
    assertFalse(job.isAlive());
    assertEquals(0, tree.entries());
    Manifest manifest = image.manifest();
    assertEquals(3, manifest.formatVersion());
    assertEquals(
        new TreeSet<>(members),
        new TreeSet<>(manifest.members().stream().map(each -> each.pid()).toList()));
    assertTrue(manifest.members().stream().allMatch(each -> each.gpuBytes().size() == 1));
    assertEquals(
        List.of("gpu/memory-1.bin", "gpu/memory-2.bin", "gpu/memory-3.bin"),
        manifest.memoryFiles());
    assertEquals(1 + MEMBERS + 4, image.describe().processes().size());
    assertTreeIsNamed(manifest, job.pid(), members);

    CheckpointedProcess restored = checkpoints().open(image()).restore();
    assertEquals(
        Collections.nCopies(MEMBERS, CHECKPOINTED),
        restored.members().stream().map(ProcessMember::state).toList());
    assertEquals(MEMBERS, tree.entries());
    assertTrue(restored.members().stream().allMatch(each -> each.gpuBytes().size() == 1));
    restored.resume();
    assertRuns(job);
  }

  private static void assertTreeIsNamed(Manifest manifest, long root, List<Integer> members) {
    Map<Role, List<Integer>> roles =
        manifest.processes().stream()
            .collect(
                Collectors.groupingBy(
                    ImageProcess::role,
                    Collectors.mapping(ImageProcess::pid, Collectors.toList())));
    assertEquals(List.of((int) root), roles.get(Role.LAUNCHER));
    assertEquals(new TreeSet<>(members), new TreeSet<>(roles.get(Role.CUDA)));
    assertEquals(4, roles.get(Role.OTHER).size(), "the loaders are the launcher's");
    for (String step : List.of("lock", "checkpoint")) {
      assertEquals(
          new TreeSet<>(members),
          new TreeSet<>(
              manifest.steps().stream()
                  .filter(each -> each.name().equals(step) && !each.duration().isZero())
                  .map(Step::pid)
                  .toList()),
          step);
    }
  }

  @Test
  void imageIsRestoredAgainAfterWhatCameOutOfItWasDumpedAgain() {
    Job job = tree.launch(2);
    ProcessImage first = suspended(job).dump(image());
    first.restore().resume();
    assertRuns(job);
    Job.Work then = job.work();
    ProcessImage second = suspended(job).dump(tree.directory().resolve("second"));
    first.restore().resume();
    assertRuns(job);
    suspended(job).dump(tree.directory().resolve("third"));
    second.restore().resume();
    Job.Work later = job.work();
    assertTrue(
        later.added() >= then.added() && later.messages() >= then.messages(),
        () -> "the second image is of a later moment: %s, %s".formatted(then, later));
    assertRuns(job);
  }

  @Test
  void imageThatWasMovedRestoresWithoutTheOldOne() throws Exception {
    Job job = tree.launch(2);
    suspended(job).dump(image());
    Path moved = tree.directory().resolve("moved");
    Files.move(image(), moved);
    checkpoints().open(moved).restore().resume();
    assertRuns(job);
    // What was restored from an image is dumped into the next one whole.
    ProcessImage second = suspended(job).dump(image());
    FileTree.remove(moved);
    second.restore().resume();
    assertRuns(job);
  }

  @Test
  void memoryIsDumpedByCriuWhereThatIsWanted() {
    Job job = tree.launch(1);
    ProcessImage image =
        suspended(job).dump(image(), DumpOptions.builder().memoryFiles(false).build());
    assertEquals(List.of(), image.manifest().memoryFiles());
    List<String> notes =
        image.steps().stream()
            .filter(step -> step.name().equals("copy to own memory"))
            .map(Step::note)
            .toList();
    assertEquals(
        Collections.nCopies(MEMBERS, "CRIU dumps the GPU memory: the options say so"), notes);
    image.restore().resume();
    assertRuns(job);
  }

  /** The driver maps the memory of that one, and CRIU dumps it. */
  @Test
  void memoryOfOneThatCannotTakeADescriptorIsDumpedByCriu() {
    Job job = tree.launch(1);
    int limited = job.member(2);
    StepListener limits =
        new StepListener() {
          @Override
          public void started(String step, int pid) {
            if (step.equals("checkpoint") && pid == limited) {
              limitDescriptors(pid);
            }
          }

          @Override
          public void finished(Step step) {
            if (step.name().equals("checkpoint") && step.pid() == limited) {
              limitDescriptors(limited, 1024); // CRIU needs some
            }
          }
        };
    GpuCheckpoints checkpoints = checkpoints().toBuilder().listener(limits).build();
    ProcessImage image = checkpoints.process(job.pid()).suspend().dump(image());
    assertEquals(List.of("gpu/memory-1.bin", "gpu/memory-2.bin"), image.manifest().memoryFiles());
    Step step =
        image.steps().stream()
            .filter(each -> each.name().equals("checkpoint") && each.pid() == limited)
            .findFirst()
            .orElseThrow();
    assertTrue(step.note().contains("copied by the driver's own thread: "), step.note());
    image.verify();
    image.restore().resume();
    assertRuns(job);
  }

  /** Members whose files are not to be in the image lose no memory. */
  @Test
  void aMemberWhoseMemoryCannotBeNamedLeavesAllSuspended() {
    Job job = tree.launch(1);
    CheckpointedProcess parked = suspended(job);
    int limited = job.member(2);
    limitDescriptors(limited);
    assertThrows(GpuCheckpointException.class, () -> parked.dump(image()), "CRIU needs some, too");
    assertFalse(Files.exists(image()));
    limitDescriptors(limited, 1024);

    ProcessImage image = parked.dump(image());
    image.verify();
    image.restore().resume();
    assertRuns(job);
  }

  /** Leaves a process two descriptors: enough for the driver, but no descriptor can be passed. */
  private static void limitDescriptors(int pid) {
    List<Integer> taken = ProcFs.openFiles(pid).stream().map(OpenFile::number).toList();
    int limit = 0;
    for (int spare = 0; spare < 2; limit++) {
      if (!taken.contains(limit)) {
        spare++;
      }
    }
    limitDescriptors(pid, limit);
  }

  private static void limitDescriptors(int pid, int limit) {
    ProgramRun.of("prlimit", "--pid", "" + pid, "--nofile=" + limit + ":1024").succeed();
  }

  @Test
  void dumpThatLeavesItAliveCanBeResumed() {
    Job job = tree.launch(2);
    CheckpointedProcess parked = suspended(job);
    parked.dump(image(), DumpOptions.builder().leaveRunning(true).build());
    assertEquals(Collections.nCopies(MEMBERS, CHECKPOINTED), tree.states(job, MEMBERS));
    assertEquals(MEMBERS, tree.entries());
    parked.resume();
    assertRuns(job);
  }

  @Test
  void snapshotLeavesTheJobRunningAndItsImageRestoresTheMoment() {
    Job job = tree.launch(4);
    RunningProcess running = checkpoints().process(job.pid());
    int newcomer = job.spawn();
    ProcessImage image = running.snapshot(image());
    assertEquals(MEMBERS + 1, image.manifest().members().size());
    LaunchedTree.assertGoesOn(job, MEMBERS + 1);
    assertEquals(0, tree.entries());
    assertThrows(PidTakenException.class, image::restore);
    List<Integer> all = ProcFs.tree(Math.toIntExact(job.pid()));
    assertTrue(all.contains(job.member(newcomer)));
    job.close();
    Workload.await(
        () -> all.stream().allMatch(pid -> Files.notExists(ProcFs.file(pid))), "their pids");
    image.restore().resume();
    LaunchedTree.assertGoesOn(job, MEMBERS + 1);
  }

  @Test
  void launchedTreeWithoutCudaIsDumpedAndRestored() {
    LaunchedProcess launched =
        checkpoints()
            .launch(
                LaunchOptions.builder("sleep", "1000")
                    .environment(tree.machine().environment())
                    .build());
    try {
      ProcessImage image = launched.process().suspend().dump(image());
      assertEquals(List.of(), image.manifest().members());
      assertEquals(0, tree.entries());
      CheckpointedProcess restored = image.restore();
      assertEquals(List.of(), restored.members());
      assertEquals(List.of(), restored.resume().members());
    } finally {
      launched.end(Duration.ZERO);
    }
  }

  @Test
  void imageOfOneProcessIsWrittenAsEarlierVersionsDid() {
    try (Counter counter = Counter.start(tree.machine())) {
      ProcessImage process = checkpoints().process(counter.pid()).suspend().dump(image());
      assertTrue(process.manifest().formatVersion() < 3);
      CheckpointedProcess restored = checkpoints().open(image()).restore();
      assertEquals(1, restored.members().size());
      ProcessImage again = restored.dump(tree.directory().resolve("again"));
      assertTrue(again.manifest().formatVersion() < 3);
      checkpoints().open(again.directory()).restore().resume();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void memberThatLeftTheTreeIsNamedBeforeAnythingIsTouched() {
    Job job = tree.launch(0);
    int below = job.spawnBelow();
    RunningProcess running = checkpoints().process(job.pid());
    CheckpointedProcess parked = running.suspend();
    job.endBetween();
    Workload.await(
        () ->
            ProcessHandle.of(job.pid())
                .orElseThrow()
                .descendants()
                .noneMatch(each -> each.pid() == job.member(below)),
        "the member to leave");
    ProcessUnfitException e =
        assertReason(
            ProcessUnfitException.class,
            ProcessUnfitException.Reason.MEMBER_OUTSIDE_TREE,
            () -> parked.dump(image()));
    assertTrue(e.getMessage().contains(Integer.toString(job.member(below))), e.getMessage());
    assertFalse(Files.exists(image()));
    RunningProcess again = parked.resume();
    assertReason(
        ProcessUnfitException.class,
        ProcessUnfitException.Reason.MEMBER_OUTSIDE_TREE,
        () -> again.snapshot(image()));
    assertEquals(Collections.nCopies(MEMBERS + 1, RUNNING), tree.states(job, MEMBERS + 1));
    again.suspend().resume();
    LaunchedTree.assertGoesOn(job, MEMBERS + 1);
    job.end(below);
  }

  @Test
  void childThatIsNoMemberIsNamed() {
    Job job = tree.launch(0);
    try (Counter counter = Counter.start(tree.machine())) {
      assertEquals(101, counter.increment());
      String child = counter.ask("fork");
      CheckpointedProcess suspended = checkpoints().process(counter.pid()).suspend();
      FixAndRetryException e =
          assertReason(
              FixAndRetryException.class,
              FixAndRetryException.Reason.CUDA_CHILD,
              () -> suspended.dump(image()));
      assertTrue(e.getMessage().contains("child " + child), e.getMessage());
      assertTrue(e.getMessage().contains("inherited by fork"), e.getMessage());
      suspended.resume();
    }
    // One that came when the others were suspended already.
    CheckpointedProcess parked = suspended(job);
    int late = job.spawn();
    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.CUDA_CHILD,
            () -> parked.dump(image()));
    assertTrue(e.getMessage().contains("GpuProcess.of"), e.getMessage());
    assertTrue(e.getMessage().contains("child " + job.member(late)), e.getMessage());
    // A restored job would not know of it.
    CheckpointedProcess alone = checkpoints().process(job.member(late)).suspend();
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.CUDA_CHILD,
        () -> parked.dump(image()));
    alone.resume();
    parked.resume();
    LaunchedTree.assertGoesOn(job, MEMBERS + 1);
  }

  @Test
  void stepsSayWhichMemberTheyWereOf() {
    Job job = tree.launch(0);
    ProcessImage image = suspended(job).dump(image());
    List<Integer> written =
        image.steps().stream()
            .filter(step -> step.name().equals("write"))
            .map(Step::pid)
            .sorted()
            .toList();
    assertEquals(
        image.manifest().members().stream().map(each -> each.pid()).sorted().toList(), written);
    image.restore().resume();
    assertRuns(job);
  }
}
