package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.ExitReports;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a job gets of the JVM that launches it, and what becomes of it when that JVM ends. */
class LauncherTest {

  private static final Duration PATIENCE = Duration.ofSeconds(55);

  @TempDir Path directory;
  private Process jvm;

  @AfterEach
  void endLauncher() {
    if (jvm != null) {
      jvm.destroyForcibly();
    }
  }

  private Path said() {
    return directory.resolve("said");
  }

  /**
   * Starts a launcher by a shell.
   *
   * @param prefix what the shell does with the command behind it
   */
  private String launcher(String prefix, String what) throws IOException {
    List<String> shell = List.of("/bin/sh", "-c", prefix, "sh");
    Path errors = directory.resolve("errors");
    jvm =
        new ProcessBuilder(TestJvm.commandBy(shell, Launcher.class, what, directory.toString()))
            .redirectErrorStream(true)
            .redirectOutput(errors.toFile())
            .start();
    Awaitility.await().atMost(PATIENCE).until(() -> Files.exists(said()) || !jvm.isAlive());
    assertTrue(Files.exists(said()), Files.readString(errors));
    return Files.readString(said());
  }

  private static void assertThreePipes(String listing) {
    List<String> open =
        listing
            .lines()
            .filter(line -> line.contains(" -> "))
            .map(line -> line.replaceAll(".* (\\d+) -> (/dev/null|pipe|/proc).*", "$1 $2"))
            .toList();
    assertEquals(List.of("0 /dev/null", "1 pipe", "2 pipe", "3 /proc"), open, listing);
    assertTrue(listing.contains("oops"), listing);
  }

  /** Continuous integration often runs without standard input. */
  @Test
  void jobHasItsThreeDescriptorsWhereTheJvmHasNone() throws IOException {
    String[] listings = launcher("exec \"$@\" <&- >&- 2>&-", "descriptors").split("--\n");
    assertThreePipes(listings[0]);
    assertThreePipes(listings[1]);
  }

  /** In the POSIX locale the JDK knows no character but ASCII, and reads the others as one. */
  @Test
  void environmentThatTheLocaleCannotExpressArrivesByteForByte() throws IOException {
    String bytes = "export LC_ALL=C \"X=$(printf '\\377\\376 a')\"; exec env 'no name=1' \"$@\"";
    assertEquals("OptionalInt[0]", launcher(bytes, "environment"));
    String read =
        new String(
            Files.readAllBytes(directory.resolve("environment")), StandardCharsets.ISO_8859_1);
    List<String> all = List.of(read.split("\0"));
    assertTrue(all.contains("X=\u00ff\u00fe a"), read);
    assertTrue(all.contains("no name=1"), read);
    assertTrue(all.contains("V=\u00e4\u00b8\u0096"), read);
    assertTrue(all.contains("W=\u00c3\u00a9"), read);
  }

  @Test
  void firstProcessOfAContainerReapsTheOrphansOfItsJobs() throws Exception {
    String unshare = "exec unshare --pid --fork --kill-child --mount-proc";
    Assumptions.assumeTrue(
        new ProcessBuilder("sh", "-c", unshare + " true").start().waitFor() == 0,
        "no pid namespaces");
    assertEquals("OptionalInt[4] []", launcher(unshare + " \"$@\"", "orphans"));
  }

  private List<ProcessIdentity> job(String text) {
    return Stream.of(text.split(" "))
        .map(pid -> ProcessIdentity.of(Long.parseLong(pid)).orElseThrow())
        .toList();
  }

  @Test
  void jobEndsWithTheJvmThatIsKilled() throws Exception {
    List<ProcessIdentity> job = job(launcher("exec \"$@\"", "stay"));
    assertTrue(job.stream().allMatch(ProcessIdentity::isAlive));
    jvm.destroyForcibly().waitFor();
    Awaitility.await()
        .atMost(PATIENCE)
        .until(() -> job.stream().noneMatch(ProcessIdentity::isAlive));
  }

  @Test
  void jobThatMaySurvivesTheJvmThatIsKilled() throws Exception {
    List<ProcessIdentity> job = job(launcherWithItsOwnState("leave"));
    List<ProcessIdentity> guards =
        jvm.toHandle()
            .children()
            .filter(child -> child.pid() != job.get(0).pid())
            .flatMap(child -> ProcessIdentity.of(child.pid()).stream())
            .toList();
    try {
      assertEquals(1, guards.size());
      jvm.destroyForcibly().waitFor();
      assertTrue(job.stream().allMatch(ProcessIdentity::isAlive));
      GpuCheckpoints later =
          GpuCheckpoints.builder().stateDirectory(directory.resolve("state")).build();
      assertEquals(Optional.empty(), later.exit(job.get(0)));
      end(job.subList(1, job.size())); // the root exits with the status of its child
      Awaitility.await().atMost(PATIENCE).until(() -> !guards.get(0).isAlive());
      ExitReports.assume(job.get(0));
      assertEquals(OptionalInt.of(128 + 9), later.exit(job.get(0)).orElseThrow().code());
    } finally {
      end(job);
    }
  }

  private static void end(List<ProcessIdentity> job) {
    for (ProcessIdentity each : job) {
      ProcessHandle.of(each.pid())
          .filter(handle -> each.isAlive())
          .ifPresent(ProcessHandle::destroyForcibly);
    }
  }

  private String launcherWithItsOwnState() throws IOException {
    return launcherWithItsOwnState("stay");
  }

  private String launcherWithItsOwnState(String mode) throws IOException {
    return launcher(
        "exec env GPUPROCESS_STATE_DIR='%s' \"$@\"".formatted(directory.resolve("state")), mode);
  }

  private List<Path> entries() throws IOException {
    try (Stream<Path> files = Files.list(directory.resolve("state"))) {
      return files.filter(file -> file.toString().endsWith(".job")).toList();
    }
  }

  @Test
  void jobThatOutlivesItsJvmAndItsGuardIsEndedByARecovery() throws Exception {
    List<ProcessIdentity> job = job(launcherWithItsOwnState());
    assertEquals(1, entries().size());
    List<ProcessIdentity> guards =
        jvm.toHandle()
            .children()
            .filter(child -> child.pid() != job.get(0).pid())
            .flatMap(child -> ProcessIdentity.of(child.pid()).stream())
            .toList();
    assertEquals(1, guards.size());
    signal("STOP", jvm.pid()); // it does not replace the guard
    Awaitility.await()
        .atMost(PATIENCE)
        .until(() -> ProcFs.stat(jvm.pid()).orElseThrow().isStopped());
    signal("KILL", guards.get(0).pid());
    signal("KILL", jvm.pid());
    jvm.waitFor();
    assertTrue(job.stream().allMatch(ProcessIdentity::isAlive));
    try {
      assertEndedByARecovery(job);
    } finally {
      end(job);
    }
  }

  private void assertEndedByARecovery(List<ProcessIdentity> job) throws IOException {
    GpuCheckpoints next =
        GpuCheckpoints.builder().stateDirectory(directory.resolve("state")).build();
    List<Recovered> recovered = next.recover();
    assertEquals(
        List.of(RecoveryOutcome.ENDED_WITH_CONTROLLER),
        recovered.stream().map(Recovered::outcome).toList());
    assertEquals(job.get(0), recovered.get(0).process());
    assertTrue(job.stream().noneMatch(ProcessIdentity::isAlive));
    assertEquals(List.of(), entries());
    assertEquals(List.of(), next.recover());
  }

  private static void signal(String name, long pid) {
    Signal.send(name, pid);
  }

  @Test
  void guardTakesTheJobOutOfTheJournal() throws Exception {
    List<ProcessIdentity> job = job(launcherWithItsOwnState());
    jvm.destroyForcibly().waitFor();
    Awaitility.await().atMost(PATIENCE).until(() -> entries().isEmpty());
    assertTrue(job.stream().noneMatch(ProcessIdentity::isAlive));
  }
}
