package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.proc.Namespaces;
import dev.gpuprocess.internal.proc.Namespaces.Kind;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What CRIU dumps and cannot restore is refused while the process runs, or restored. */
@RequiresCriu
@RequiresRoot("makes namespaces")
class RestorableTreeTest {

  private static final String WAIT = "sleep 1000 while 1";

  @TempDir Path directory;

  private static List<Finding> problems(Workload tree) {
    return new RpcCriuDriver()
        .preflight(tree.identity(), DumpOptions.ofDefaults()).stream()
            .filter(Finding::isProblem)
            .toList();
  }

  private static List<String> handles(List<Finding> findings) {
    return findings.stream().map(Finding::subject).toList();
  }

  private CriuException refusedDump(Workload tree) {
    DumpDirectories site = DumpDirectories.in(directory.resolve("site"), new RpcCriuDriver());
    CriuException refused =
        assertThrows(
            CriuException.class, () -> site.dump(tree.identity(), DumpOptions.ofDefaults()));
    assertEquals(CriuException.Reason.UNSUPPORTED_RESOURCE, refused.reason(), refused::toString);
    assertEquals(Fate.RUNNING_AGAIN, refused.failure().fate(), refused::toString);
    assertTrue(tree.identity().isAlive());
    return refused;
  }

  private static Set<Kind> ownKinds(Workload root) {
    Namespaces ofRoot = Namespaces.of(root.pid());
    return ProcFs.descendants(root.pid()).stream()
        .flatMap(pid -> Namespaces.of(pid).differences(ofRoot).stream())
        .collect(Collectors.toCollection(() -> EnumSet.noneOf(Kind.class)));
  }

  private static void endAll(Workload root) {
    ProcFs.descendants(root.pid()).stream()
        .flatMap(pid -> ProcessIdentity.of(pid).stream())
        .forEach(Workload::end);
    root.close();
  }

  /** CRIU dumps the first two and cannot restore them; the others it refuses without a cure. */
  @Test
  void childInNamespaceOfItsOwn_isRefused() {
    String children =
        List.of("mount", "net", "ipc", "uts", "cgroup", "time", "user").stream()
            .map("unshare --%s sleep 1000 & "::formatted)
            .collect(Collectors.joining());
    Workload root =
        Workload.of("setsid", "sh", "-c", children + "unshare --pid --fork sleep 1000 & wait");
    try {
      Set<Kind> kinds =
          EnumSet.of(Kind.MOUNT, Kind.NETWORK, Kind.IPC, Kind.UTS, Kind.CGROUP, Kind.PID);
      Workload.await(() -> ownKinds(root).containsAll(kinds), "the children");
      List<Finding> problems = problems(root);
      for (Kind kind : kinds) {
        assertEquals(
            1,
            problems.stream()
                .filter(each -> each.subject().endsWith("namespace " + kind.link()))
                .filter(each -> each.what().contains("not that of the root of the tree, process "))
                .filter(each -> each.cure().contains("as the root of a tree of its own"))
                .count(),
            () -> kind + ": " + problems);
      }
      assertTrue(
          problems.stream().anyMatch(each -> each.subject().endsWith("namespace pid_for_children")),
          problems::toString);
    } finally {
      endAll(root);
    }
  }

  /** Without the preflight the images show it, before CRIU may kill anything. */
  @Test
  void imagesThatCannotBeRestored_areRefusedAtTheDump() {
    Workload root = Workload.of("setsid", "sh", "-c", "unshare --net sleep 1000; wait");
    try {
      Workload.await(() -> ownKinds(root).contains(Kind.NETWORK), "the child");
      CriuException refused = refusedDump(root);
      String text = String.valueOf(refused.getMessage());
      assertTrue(text.contains("CRIU dumps and cannot restore namespace net of process "), text);
    } finally {
      endAll(root);
    }
  }

  /** CRIU would dump the tree, and fail to restore the child. */
  @Test
  void childOfARootInACgroupNamespace_inTheCgroupOfThisJvm_isRefused() {
    Assumptions.assumeTrue(
        ProgramRun.of("unshare", "--cgroup", "true").run().exit() == 0,
        "this machine has no cgroup namespaces");
    Workload root = Workload.of("setsid", "unshare", "--cgroup", "sh", "-c", "sleep 1000 & wait");
    try {
      Workload.await(() -> !ProcFs.descendants(root.pid()).isEmpty(), "the child");
      List<Finding> problems = problems(root);
      assertEquals(1, problems.size(), problems::toString);
      assertTrue(
          problems.get(0).what().contains("begins at the cgroup of this JVM"), problems::toString);
    } finally {
      endAll(root);
    }
  }

  private static boolean hasStoppedProcess(Workload root) {
    return ProcFs.descendants(root.pid()).stream()
        .flatMap(pid -> ProcFs.stat(pid).stream())
        .anyMatch(ProcStat::isStopped);
  }

  private static long problemsOfStops(Workload root) {
    return problems(root).stream()
        .filter(each -> each.what().startsWith("a stopped process is in the process group of"))
        .count();
  }

  /** The kernel would end the restored tree. */
  @Test
  void stoppedProcessInTheGroupOfARootThatDoesNotLeadItsSession_isRefused() {
    String tree = "sleep 1000 & kill -STOP $!; wait";
    Workload member = Workload.of("sh", "-c", tree);
    Workload leader = Workload.of("setsid", "sh", "-c", tree);
    try {
      Workload.await(() -> hasStoppedProcess(member) && hasStoppedProcess(leader), "the stops");
      assertEquals(1, problemsOfStops(member), () -> problems(member).toString());
      assertEquals(0, problemsOfStops(leader), () -> problems(leader).toString());
      // A process that is stopped after the preflight is in the images.
      String text = String.valueOf(refusedDump(member).getMessage());
      assertTrue(text.contains("a stopped process in the group of a root"), text);
    } finally {
      endAll(member);
      endAll(leader);
    }
  }

  @Test
  void rootInUserNamespaceOfItsOwn_isRefused() {
    Assumptions.assumeTrue(
        ProgramRun.of("unshare", "--user", "--map-root-user", "true").run().exit() == 0,
        "this machine has no user namespaces");
    try (Workload root =
        Workload.of("setsid", "unshare", "--user", "--map-root-user", "perl", "-e", WAIT)) {
      Workload.await(
          () -> Namespaces.of(root.pid()).differs(Kind.USER, Namespaces.ours()), "the namespace");
      List<Finding> problems = problems(root);
      assertEquals(1, problems.size(), problems::toString);
      assertTrue(problems.get(0).subject().endsWith("namespace user"), problems::toString);
    }
  }

  @Test
  void threadInNamespaceOfItsOwn_isRefused() {
    String thread =
        "use threads; threads->create(sub { syscall 272, 0x40000000; sleep 1000 })->join";
    Assumptions.assumeTrue(
        ProgramRun.of("perl", "-Mthreads", "-e", "1").run().exit() == 0, "no threads");
    try (Workload root = Workload.of("setsid", "perl", "-e", thread)) {
      Workload.await(() -> !problems(root).isEmpty(), "the thread");
      List<Finding> problems = problems(root);
      assertTrue(
          problems.get(0).what().contains("its network namespace net:["), problems::toString);
      assertEquals(1, handles(problems).size(), problems::toString);
    }
  }

  /** {@code 319} is memfd_create. */
  @Test
  void programInMemory_isRefused() {
    String program =
        """
        my $name = "prog"; my $fd = syscall 319, $name, 0;
        open my $out, '>&=', $fd; open my $in, '<', '/bin/sleep'; local $/;
        binmode $out; print {$out} <$in>; $out->flush; exec {"/proc/$$/fd/$fd"} 'sleep', '1000';
        """;
    try (Workload root = Workload.of("setsid", "perl", "-MIO::Handle", "-e", program)) {
      Workload.await(
          () -> ProcFs.program(root.pid()).orElse("").startsWith("/memfd:"), "the program");
      List<Finding> problems = problems(root);
      assertTrue(
          handles(problems).stream().anyMatch(each -> each.contains("program /memfd:prog")),
          problems::toString);
      CriuException refused = refusedDump(root);
      assertTrue(String.valueOf(refused.getMessage()).contains("program"), refused::toString);
    }
  }

  /** The parent of a restored root is CRIU, which exits; that of a child is in the tree. */
  @Test
  void parentDeathSignal_doesNotEndTheRestoredRoot() {
    Assumptions.assumeTrue(
        ProgramRun.of("setpriv", "--pdeathsig", "KILL", "true").run().exit() == 0, "no setpriv");
    Workload root =
        Workload.of(
            "setsid",
            "setpriv",
            "--pdeathsig",
            "KILL",
            "sh",
            "-c",
            "setpriv --pdeathsig KILL sleep 1000; wait");
    Workload.await(
        () ->
            ProcFs.descendants(root.pid()).stream()
                .anyMatch(
                    pid ->
                        ProcFs.commandLine(pid).contains("1000")
                            && ProcFs.commandLine(pid).get(0).equals("sleep")),
        "the child");
    int child = ProcFs.descendants(root.pid()).get(0);
    try {
      DumpDirectories site = DumpDirectories.in(directory.resolve("site"), new RpcCriuDriver());
      site.dump(root.identity(), DumpOptions.ofDefaults());
      ProcessIdentity restored = site.restore(root.pid(), RestoreOptions.ofDefaults()).process();
      // CRIU has exited: the signal would be here now.
      assertTrue(restored.isAlive());
      ProcessIdentity ofChild = ProcessIdentity.of(child).orElseThrow();
      Workload.end(restored);
      Workload.await(() -> !ofChild.isAlive(), "the child to get its signal");
    } finally {
      endAll(root);
    }
  }

  private static Finding onlyProblem(Workload tree) {
    List<Finding> problems = problems(tree);
    assertEquals(1, problems.size(), problems::toString);
    return problems.get(0);
  }

  /** CRIU reads each line of {@code /proc/PID/status} into a page. */
  @Test
  void processInManyGroups_isRefusedWithTheTrueCause() {
    String program =
        "$( = $) = '0 ' . join(' ', 20000 .. 20000 + %d - 1); open my $f, '>', '%s'; sleep 1000 while 1";
    Path few = directory.resolve("few");
    Path many = directory.resolve("many");
    try (Workload most = Workload.of("setsid", "perl", "-e", program.formatted(681, few));
        Workload more = Workload.of("setsid", "perl", "-e", program.formatted(682, many))) {
      Workload.await(() -> Files.exists(few) && Files.exists(many), "the processes");
      assertEquals(List.of(), problems(most));
      assertTrue(onlyProblem(more).cure().contains("fewer groups"));
      DumpDirectories site = DumpDirectories.in(directory.resolve("site"), new RpcCriuDriver());
      CriuException e =
          assertThrows(
              CriuException.class, () -> site.dump(more.identity(), DumpOptions.ofDefaults()));
      assertTrue(String.valueOf(e.getMessage()).contains("fewer groups"), e::toString);
      assertTrue(more.identity().isAlive());
    }
  }

  @Test
  void fileBelowALaterMount_isNamedAsHidden() {
    Path ready = directory.resolve("ready");
    String script =
        "mkdir %1$s/d; exec 7>%1$s/d/file; mount -t tmpfs over %1$s/d; : >%2$s; exec sleep 1000";
    try (Workload root =
        Workload.of(
            "setsid",
            "unshare",
            "--mount",
            "sh",
            "-ec",
            "exec </dev/null >/dev/null 2>&1; " + script.formatted(directory, ready))) {
      Workload.await(() -> Files.exists(ready), "the mount");
      Finding problem = onlyProblem(root);
      assertTrue(
          problem.what().contains(directory + "/d/file is hidden by a later mount"),
          problem::toString);
    }
  }

  /** What batch systems set: CRIU would die of SIGXFSZ. */
  @Test
  void limitOfFileSizes_isRaisedForCriu() throws Exception {
    TestJvm.assertEndsSaying(
        "all right",
        TestJvm.commandBy(
            List.of("sh", "-ec", "ulimit -S -f 2048; exec \"$0\" \"$@\""),
            SmallFiles.class,
            directory.toString()));
  }

  /** A controller whose files may have a MiB. */
  static final class SmallFiles {

    private SmallFiles() {}

    /**
     * Dumps a process with more.
     *
     * @param args a directory
     */
    public static void main(String[] args) {
      Path directory = Path.of(args[0]);
      try (Workload workload = Workload.counter(directory, 8)) {
        DumpDirectories site = DumpDirectories.in(directory.resolve("site"), new RpcCriuDriver());
        site.dump(workload.identity(), DumpDirectories.backup().build());
        workload.assertGoesOn();
      }
      System.out.println("all right");
      System.exit(0);
    }
  }
}
