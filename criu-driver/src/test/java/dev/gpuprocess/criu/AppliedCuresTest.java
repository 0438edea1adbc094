package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What the refusal of a dump says to do, done as it is written, lets CRIU dump the tree. */
@RequiresCriu
@RequiresRoot("makes namespaces")
@Tag("slow")
class AppliedCuresTest {

  private static final String QUIET = "exec </dev/null >/dev/null 2>&1; ";
  private static final String WAIT = "sleep 1000 while 1";

  /** {@code 30} is shmat; the memory goes with the process, and has its name then. */
  private static final String SYSTEM_V =
      "my $id = shmget 0, 4096, 0600; syscall 30, $id, 0, 0; shmctl $id, 0, 0; $0 = q(sleep); "
          + WAIT;

  private static final String IN_PROC = QUIET + "exec 7</proc/$$/stat; exec sleep 1000";

  @TempDir Path directory;
  private final RpcCriuDriver criu = new RpcCriuDriver();

  /** How a program is started, and how the refusal says that it is to be started. */
  private enum Start {
    SESSION(
        "start the process in a session of its own, with setsid",
        "unshare --pid --fork --kill-child sleep 1000",
        "unshare --pid --fork --kill-child setsid sleep 1000"),
    FILE_OF_A_PROCESS(
        "mount a /proc of its own in the namespace (unshare --mount-proc)",
        "unshare --pid --fork --kill-child setsid sh -c '" + IN_PROC + "'",
        "unshare --pid --fork --kill-child --mount-proc setsid sh -c '" + IN_PROC + "'"),
    SYSTEM_V_MEMORY(
        "start the job in one (unshare --ipc)",
        "setsid perl -e '" + SYSTEM_V + "'",
        "setsid unshare --ipc perl -e '" + SYSTEM_V + "'"),
    CGROUP_NAMESPACE(
        "without a cgroup namespace of its own",
        "setsid unshare --cgroup sh -c 'sleep 1000 & wait'",
        "setsid sh -c 'sleep 1000 & wait'"),
    USER_NAMESPACE(
        "start the process without one",
        "setsid unshare --user --map-root-user sleep 1000",
        "setsid sleep 1000"),
    FILE_OF_ANOTHER_MOUNT(
        "as by: unshare --mount sh -c 'exec program > log'",
        "setsid unshare --mount sleep 1000",
        "setsid unshare --mount sh -c '" + QUIET + "exec sleep 1000'");

    final String cure;
    final String refused;
    final String cured;

    Start(String cure, String refused, String cured) {
      this.cure = cure;
      this.refused = refused;
      this.cured = cured;
    }
  }

  private List<Finding> problems(ProcessIdentity root) {
    return criu.preflight(root, DumpOptions.ofDefaults()).stream()
        .filter(Finding::isProblem)
        .toList();
  }

  /** Returns the only cure of a tree, once it is there. */
  private String cure(Workload started) {
    Workload.await(() -> waits(started), "the program");
    return cure(started.identity());
  }

  private String cure(ProcessIdentity root) {
    Workload.await(() -> !problems(root).isEmpty(), "a problem");
    List<String> cures = problems(root).stream().map(Finding::cure).distinct().toList();
    assertEquals(1, cures.size(), cures::toString);
    return cures.get(0);
  }

  private void assertDumped(ProcessIdentity root) {
    DumpDirectories site = DumpDirectories.in(directory.resolve("site"), criu);
    site.dump(root, DumpDirectories.backup().build());
    assertTrue(root.isAlive());
  }

  /** Ends a tree, also if it is stopped or its root has no parent that does. */
  private static void end(Workload tree) {
    List<ProcessIdentity> all =
        ProcFs.tree(tree.pid()).stream().flatMap(pid -> ProcessIdentity.of(pid).stream()).toList();
    tree.close();
    all.forEach(Workload::end);
  }

  /** Returns the first process of a pid namespace, or else the process that was started. */
  private static Optional<ProcessIdentity> root(Workload started) {
    if (!ProcFs.commandLine(started.pid()).contains("--fork")) {
      return Optional.of(started.identity());
    }
    return ProcFs.descendants(started.pid()).stream().findFirst().flatMap(ProcessIdentity::of);
  }

  private static boolean waits(Workload started) {
    return ProcFs.tree(started.pid()).stream()
        .map(ProcFs::commandLine)
        .anyMatch(words -> !words.isEmpty() && words.get(0).equals("sleep"));
  }

  @ParameterizedTest
  @EnumSource
  void startedAsToldTheTreeIsDumped(Start start) {
    Workload refused = Workload.of("sh", "-c", "exec " + start.refused);
    try {
      Workload.await(() -> waits(refused) || !refused.identity().isAlive(), "the program");
      assumeTrue(refused.identity().isAlive(), "this machine lacks what the program needs");
      String cure = cure(root(refused).orElseThrow());
      assertTrue(cure.contains(start.cure), cure);
    } finally {
      end(refused);
    }
    Workload cured = Workload.of("sh", "-c", "exec " + start.cured);
    try {
      Workload.await(() -> waits(cured), "the program");
      ProcessIdentity root = root(cured).orElseThrow();
      Workload.await(() -> problems(root).isEmpty(), "no problem");
      if (start != Start.FILE_OF_ANOTHER_MOUNT) {
        assertDumped(root);
      }
    } finally {
      end(cured);
    }
  }

  private static Matcher found(String pattern, String cure) {
    Matcher found = Pattern.compile(pattern).matcher(cure);
    assertTrue(found.find(), cure);
    return found;
  }

  @Test
  void stoppedProcess_isContinued() {
    Workload tree = Workload.of("sh", "-c", "sleep 1000 & kill -STOP $!; wait");
    try {
      String command = found("kill -CONT \\d+", cure(tree.identity())).group();
      ProgramRun.of(command.split(" ")).succeed();
      Workload.await(
          () ->
              ProcFs.descendants(tree.pid()).stream()
                  .flatMap(pid -> ProcFs.stat(pid).stream())
                  .noneMatch(ProcStat::isStopped),
          "the process to continue");
      assertEquals(List.of(), problems(tree.identity()));
      assertDumped(tree.identity());
    } finally {
      end(tree);
    }
  }

  @Test
  void childInANamespace_isDumpedAsARootOfItsOwn() {
    Workload tree = Workload.of("setsid", "sh", "-c", "unshare --uts sleep 1000 & wait");
    try {
      Matcher child = found("dump process (\\d+) as the root", cure(tree));
      ProcessIdentity root = ProcessIdentity.of(Integer.parseInt(child.group(1))).orElseThrow();
      assertEquals(List.of(), problems(root));
      assertDumped(root);
    } finally {
      end(tree);
    }
  }

  @Test
  void mountThatHidesAFile_isUnmounted() {
    Path hidden = directory.resolve("hidden");
    String script =
        QUIET + "mkdir %1$s; exec 7>%1$s/file; mount -t tmpfs over %1$s; exec sleep 1000";
    Workload tree =
        Workload.of("setsid", "unshare", "--mount", "sh", "-ec", script.formatted(hidden));
    try {
      assertTrue(cure(tree).startsWith("unmount that"));
      ProgramRun.of("nsenter", "--mount", "--target", "" + tree.pid(), "umount", hidden.toString())
          .succeed();
      assertEquals(List.of(), problems(tree.identity()));
    } finally {
      end(tree);
    }
  }

  @Test
  void tracer_isEnded() {
    try (dev.gpuprocess.fixtures.Workload idle = dev.gpuprocess.fixtures.Workload.idle()) {
      ProcessIdentity traced = ProcessIdentity.of(idle.pid()).orElseThrow();
      try (dev.gpuprocess.fixtures.Workload tracer = dev.gpuprocess.fixtures.Workload.idle()) {
        assertFalse(tracer.ask("trace " + idle.pid()).startsWith("error"));
        assertTrue(cure(traced).startsWith("end the tracer"));
      }
      Workload.await(() -> problems(traced).isEmpty(), "the tracer to end");
      assertDumped(traced);
    }
  }

  /** As in a container. {@code 294} and {@code 254} are inotify_init1 and inotify_add_watch. */
  @Test
  void watchOnAnOverlay_isFoundByTheOptions() throws IOException {
    String mounting =
        "mount -t tmpfs none \"$0\" && cd \"$0\" && mkdir lower upper work top && echo 1 >lower/file"
            + " && mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none top";
    Path mount = Files.createDirectory(directory.resolve("mount"));
    Path top = mount.resolve("top");
    ProgramRun.Ended mounted = ProgramRun.of("sh", "-c", mounting, mount.toString()).run();
    try {
      assumeTrue(mounted.exit() == 0, () -> "no overlayfs: " + mounted.printed());
      String program =
          "my $f = syscall 294, 0; my $w = '%s'; syscall(254, $f, $w, 2) == 1 or die; open my $r, '>', '%s'; %s";
      Path ready = directory.resolve("ready");
      try (Workload watcher =
          Workload.of(
              "setsid", "perl", "-e", program.formatted(top.resolve("file"), ready, WAIT))) {
        Workload.await(() -> Files.exists(ready), "the watch");
        DumpDirectories site = DumpDirectories.in(directory.resolve("refused"), criu);
        CriuException refused =
            assertThrows(
                CriuException.class,
                () -> site.dump(watcher.identity(), DumpDirectories.backup().build()));
        String message = String.valueOf(refused.getMessage());
        assertTrue(message.contains("CriuOptions.set(\"force-irmap\")"), message);
        assertTrue(message.contains("CriuOptions.set(\"irmap-scan-path=/\")"), message);
        DumpDirectories.in(directory.resolve("dumped"), criu)
            .dump(
                watcher.identity(),
                DumpDirectories.backup()
                    .criu(c -> c.set("force-irmap").set("irmap-scan-path=" + top))
                    .build());
        assertTrue(watcher.identity().isAlive());
      }
    } finally {
      if (mounted.exit() == 0) {
        ProgramRun.of("umount", top.toString()).succeed();
      }
      ProgramRun.of("umount", mount.toString()).run();
    }
  }
}
