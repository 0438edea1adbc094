package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.FrozenGroup;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.internal.tree.TreeFate;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Processes that CRIU cannot stop are found before it touches the tree. */
class StoppableTreeTest {

  @TempDir Path directory;
  private final RpcCriuDriver criu = new RpcCriuDriver();
  private final List<ProcessHandle> children = new ArrayList<>();
  private int dumps;

  @BeforeEach
  void find() {
    RealCriu.assume();
  }

  private void dump(ProcessIdentity root) throws IOException {
    Path place = Files.createDirectory(directory.resolve("dump" + dumps++));
    Path images = Files.createDirectory(place.resolve("images"));
    Path work = Files.createDirectory(place.resolve("work"));
    DumpOptions options =
        DumpOptions.builder().leaveRunning(true).deadline(Duration.ofSeconds(60)).build();
    criu.dump(new DumpRequest(root, images, work, options), DumpListener.NONE);
  }

  /** A parent with one child. */
  private Workload family() {
    return family("sh", "-c", "sleep 1000 & wait");
  }

  private Workload family(String... command) {
    Workload parent = Workload.of(command);
    Workload.await(() -> ProcFs.descendants(parent.pid()).size() == 1, "a child");
    ProcessHandle.of(ProcFs.descendants(parent.pid()).get(0)).ifPresent(children::add);
    return parent;
  }

  /** They outlive their parents. */
  @AfterEach
  void endChildren() {
    children.forEach(ProcessHandle::destroyForcibly);
  }

  private void assertRefusedUntilThawed(Workload parent, Optional<FrozenGroup> frozen)
      throws IOException {
    assumeTrue(frozen.isPresent(), "this version of control groups cannot be used here");
    int child = ProcFs.descendants(parent.pid()).get(0);
    try (FrozenGroup group = frozen.get()) {
      FixAndRetryException refused =
          assertReason(
              FixAndRetryException.class,
              FixAndRetryException.Reason.PROCESS_STOPPED,
              () -> dump(parent.identity()));
      assertTrue(refused.getMessage().contains("frozen"), refused.getMessage());
      group.thaw();
      dump(parent.identity());
      assertTrue(parent.identity().isAlive());
      assertEquals(List.of(child), ProcFs.descendants(parent.pid()));
    }
  }

  @Test
  @OutsideUse("A8")
  void dump_oneChildIsFrozenByVersion2_refusedAndUnharmed() throws IOException {
    try (Workload parent = family()) {
      int child = ProcFs.descendants(parent.pid()).get(0);
      assertRefusedUntilThawed(parent, FrozenGroup.above(child));
    }
  }

  @Test
  @OutsideUse("A8")
  void dump_rootIsFrozenByVersion2_refusedAndUnharmed() throws IOException {
    try (Workload parent = family()) {
      assertRefusedUntilThawed(parent, FrozenGroup.second(parent.pid()));
    }
  }

  @Test
  @OutsideUse("A8")
  void dump_oneChildIsFrozenByVersion1_refusedAndUnharmed() throws IOException {
    try (Workload parent = family()) {
      int child = ProcFs.descendants(parent.pid()).get(0);
      assertRefusedUntilThawed(parent, FrozenGroup.first(child));
    }
  }

  @Test
  @OutsideUse("A8")
  void fate_frozen_isNotThatItRuns() throws Exception {
    try (Workload parent = family()) {
      Optional<FrozenGroup> frozen = FrozenGroup.second(parent.pid());
      assumeTrue(frozen.isPresent(), "this version of control groups cannot be used here");
      try (FrozenGroup group = frozen.get()) {
        assertEquals(TreeFate.UNSETTLED, TreeFate.of(List.of(parent.identity()), false));
        group.thaw();
        Workload.await(() -> !ProcFs.isFrozen(parent.pid()), "the thaw");
        assertEquals(TreeFate.RUNS, TreeFate.of(List.of(parent.identity()), false));
      }
    }
  }

  private static void awaitFirstThreadEnded(long pid) {
    Workload.await(
        () -> ProcFs.stat(pid).map(ProcStat::firstThreadEnded).orElse(false),
        "its first thread to end");
  }

  @Test
  @OutsideUse("A7")
  void dump_firstThreadHasEnded_refusedBeforeCriuAndUnharmed() throws IOException {
    try (dev.gpuprocess.fixtures.Workload idle =
        dev.gpuprocess.fixtures.Workload.launchIdle().firstThreadEnds().start()) {
      awaitFirstThreadEnded(idle.pid());
      ProcessIdentity root = ProcessIdentity.of(idle.pid()).orElseThrow();
      CriuException refused =
          assertReason(
              CriuException.class, CriuException.Reason.UNSUPPORTED_RESOURCE, () -> dump(root));
      assertTrue(refused.getMessage().contains("first thread"), refused.getMessage());
      List<Finding> problems =
          criu.preflight(root, DumpOptions.ofDefaults()).stream()
              .filter(Finding::isProblem)
              .toList();
      assertEquals(1, problems.size(), problems::toString);
      assertNotNull(problems.get(0).resource());
      assertEquals("1", idle.ask("one"));
    }
  }

  @Test
  @OutsideUse("A7")
  void dump_firstThreadOfAChildHasEnded_refusedBeforeCriuAndUnharmed() throws IOException {
    Path program;
    try (dev.gpuprocess.fixtures.Workload idle = dev.gpuprocess.fixtures.Workload.idle()) {
      program = Files.readSymbolicLink(Path.of("/proc", Long.toString(idle.pid()), "exe"));
    }
    try (Workload parent =
        family("sh", "-c", "\"$0\" --first-thread-ends & wait", program.toString())) {
      int child = ProcFs.descendants(parent.pid()).get(0);
      awaitFirstThreadEnded(child);
      CriuException refused =
          assertReason(
              CriuException.class,
              CriuException.Reason.UNSUPPORTED_RESOURCE,
              () -> dump(parent.identity()));
      assertEquals(child, refused.resources().get(0).pid());
      assertTrue(ProcessIdentity.of(child).orElseThrow().isAlive());
    }
  }
}
