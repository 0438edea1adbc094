package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.Specimen;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/**
 * Every kind of process that we have, to disk and back: it must go on, with all it had. Each waits
 * more than it works.
 */
@Execution(ExecutionMode.CONCURRENT)
class WorkloadsTest {

  /** State that CRIU loses, and the specimen's report about it. */
  private static final Map<String, String> LOST_BY_CRIU =
      Map.of(
          "eventfd-semaphore", "the semaphore has become a counter",
          "timerfd-expired", "the timer stands still");

  private static final Duration DEADLINE = Duration.ofSeconds(30);

  private static final Map<String, String> NOT_HERE = new ConcurrentSkipListMap<>();
  private static final Queue<String> WENT_ON = new ConcurrentLinkedQueue<>();
  private static final Object TERMINALS = new Object();
  private static final Queue<String> ASKED = new ConcurrentLinkedQueue<>();

  @TempDir static Path directory;

  private final CriuDriver driver = new RpcCriuDriver();

  @BeforeAll
  static void needCriu() {
    RealCriu.assume();
  }

  @AfterAll
  static void tell() {
    int possible = ASKED.size() - NOT_HERE.size();
    StringBuilder line =
        new StringBuilder("criu workloads: %d of %d".formatted(WENT_ON.size(), possible));
    NOT_HERE.forEach(
        (name, why) -> line.append("; not here: ").append(name).append(", ").append(why));
    Figures.add(line.toString());
  }

  @TestFactory
  Stream<DynamicTest> goesOn() {
    List<Specimen.Kind> kinds = Specimen.kinds();
    assertTrue(kinds.size() >= 25, "the issue asks for 25 workloads, and there are " + kinds);
    return kinds.stream().map(kind -> DynamicTest.dynamicTest(kind.name(), () -> inItsTurn(kind)));
  }

  /** A restored terminal gets its old number: the kinds with terminals run one after the other. */
  private void inItsTurn(Specimen.Kind kind) throws IOException {
    if (!kind.name().startsWith("pty")) {
      toDiskAndBack(kind);
      return;
    }
    synchronized (TERMINALS) {
      toDiskAndBack(kind);
    }
  }

  private void toDiskAndBack(Specimen.Kind kind) throws IOException {
    ASKED.add(kind.name());
    Path images = Files.createDirectory(directory.resolve(kind + "-images"));
    Path work = Files.createDirectory(directory.resolve(kind + "-work"));
    try (Specimen specimen = Specimen.start(kind, directory)) {
      requirePossible(kind, specimen);
      int pid = specimen.pid();
      List<TreeInProc> seen = new ArrayList<>();
      driver.dump(
          new DumpRequest(ProcessIdentity.of(pid).orElseThrow(), images, work, dumpOptions(kind)),
          new DumpListener() {
            @Override
            public void postDump() {
              seen.add(TreeInProc.of(pid));
            }
          });
      requireDescribed(seen.get(0), driver.describe(images));
      long ticks = specimen.ticks();
      ProcessIdentity restored = restore(specimen, images, work, pid);
      try {
        requireGoingOn(kind, specimen, ticks);
      } finally {
        endTree(restored);
      }
    }
    WENT_ON.add(kind.name());
  }

  /** In their own namespaces they have other pids and paths. */
  private static void requireDescribed(TreeInProc seen, DumpedTree described) {
    if (described.namespaces().contains("pid") || described.namespaces().contains("mnt")) {
      assertEquals(seen.processes().size(), described.processes().size());
    } else {
      seen.assertSameAs(described);
    }
  }

  private static DumpOptions dumpOptions(Specimen.Kind kind) {
    return DumpOptions.builder()
        .criu(
            c ->
                c.tcpEstablished(kind.needs().contains("tcp"))
                    .fileLocks(kind.needs().contains("locks"))
                    .linkRemap(kind.needs().contains("links")))
        .deadline(DEADLINE)
        .build();
  }

  private ProcessIdentity restore(Specimen specimen, Path images, Path work, int pid) {
    Specimen.Kind kind = specimen.kind();
    RestoreOptions.Builder options =
        RestoreOptions.builder()
            .criu(
                c ->
                    c.tcpEstablished(kind.needs().contains("tcp"))
                        .fileLocks(kind.needs().contains("locks")))
            .deadline(DEADLINE);
    if (!kind.needs().contains("root")) {
      return restore(images, work, pid, options.build());
    }
    // CRIU wants a root that is a mount.
    try (TmpFs mounted = TmpFs.bind(specimen.root())) {
      return restore(images, work, pid, options.criu(c -> c.root(mounted.point())).build());
    }
  }

  private ProcessIdentity restore(Path images, Path work, int pid, RestoreOptions options) {
    return driver
        .restore(new RestoreRequest(images, work, pid, options), RestoreListener.NONE)
        .process();
  }

  private static void requireGoingOn(Specimen.Kind kind, Specimen specimen, long ticks) {
    Workload.await(
        () -> specimen.ticks() > ticks + 3 || specimen.problem().isPresent(), kind + " to go on");
    specimen.ask();
    Workload.await(
        () -> specimen.isVerified() || specimen.problem().isPresent(), kind + " to prove itself");
    Optional<String> problem = specimen.problem();
    String known = LOST_BY_CRIU.get(kind.name());
    if (known != null && problem.filter(text -> text.endsWith(known)).isPresent()) {
      notHere(kind, "CRIU does not keep it: " + known);
    }
    assertEquals(Optional.empty(), problem);
  }

  private static void requirePossible(Specimen.Kind kind, Specimen specimen) {
    specimen
        .problem()
        .filter(problem -> problem.startsWith("impossible: "))
        .ifPresent(problem -> notHere(kind, problem.substring("impossible: ".length())));
    assertEquals(Optional.empty(), specimen.problem());
  }

  private static void notHere(Specimen.Kind kind, String why) {
    NOT_HERE.put(kind.name(), why);
    Assumptions.abort(why);
  }

  /** Children first, for they would go to init. */
  private static void endTree(ProcessIdentity root) {
    List<ProcessIdentity> tree = new ArrayList<>(List.of(root));
    for (int descendant : ProcFs.descendants(root.pid())) {
      ProcessIdentity.of(descendant).ifPresent(tree::add);
    }
    Collections.reverse(tree);
    tree.forEach(Workload::end);
  }
}
