package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.FixAndRetryException.Reason;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Jobs without a GPU: how they are started, what they get, how they end. */
@Tag("jdk")
class LaunchedProcessTest {

  private static final Duration PATIENCE = Duration.ofSeconds(50);

  @TempDir Path directory;

  private static LaunchOptions.Builder shell(String script) {
    return LaunchOptions.builder("/bin/sh", "-c", script);
  }

  private static LaunchedProcess launch(LaunchOptions.Builder options) {
    return GpuCheckpoints.standard().launch(options.build());
  }

  private static String said(InputStream stream) throws IOException {
    return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
  }

  private static String outputOf(LaunchOptions.Builder options) throws IOException {
    LaunchedProcess job = launch(options.output(Redirect.PIPE));
    String said = said(job.output().orElseThrow());
    assertEquals(OptionalInt.of(0), job.awaitExit(PATIENCE).orElseThrow().code(), said);
    return said;
  }

  private static boolean isAlive(long pid) {
    return ProcFs.stat(pid).filter(stat -> !stat.isDead()).isPresent();
  }

  private static void awaitGone(ProcessIdentity process) {
    Awaitility.await().atMost(PATIENCE).until(() -> !process.isAlive());
  }

  /** What a job writes into a file once it is whole: a line. */
  private static String line(Path file) {
    Awaitility.await()
        .atMost(PATIENCE)
        .until(() -> Files.exists(file) && Files.readString(file).endsWith("\n"));
    try {
      return Files.readString(file).strip();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private ProcessIdentity process(Path file) {
    return ProcessIdentity.of(Long.parseLong(line(file))).orElseThrow();
  }

  @Test
  void exitCodeAndSignalAreTold() throws Exception {
    LaunchedProcess coded = launch(shell("exit 7"));
    LaunchedProcess killed = launch(shell("kill -9 $$"));
    assertEquals(OptionalInt.of(7), coded.awaitExit(PATIENCE).orElseThrow().code());
    assertEquals(OptionalInt.of(7), coded.exitCode());
    assertEquals(OptionalInt.of(7), coded.onExit().get(3, TimeUnit.MINUTES).code());
    assertEquals(OptionalInt.empty(), coded.exit().orElseThrow().signal());
    assertEquals(OptionalInt.of(9), killed.awaitExit(PATIENCE).orElseThrow().signal());
    assertEquals(OptionalInt.empty(), killed.exitCode());
    awaitReaped(coded.identity());
  }

  /** The kernel reports the stops and the end of a traced child to each thread that waits. */
  @Test
  @RequiresRoot("traces a process")
  void aJobThatIsKilledWhileThisJvmTracesItKeepsItsSignal() throws Exception {
    LaunchedProcess job = launch(LaunchOptions.builder("sleep", "1000"));
    int pid = job.identity().pid();
    FutureTask<Boolean> traced =
        new FutureTask<>(
            () -> {
              Ptrace ptrace = new Ptrace();
              ptrace.seize(pid);
              ptrace.interrupt(pid);
              assertTrue(Polling.until(PATIENCE, () -> ptrace.reportedStop(pid).isPresent()));
              assertEquals(Optional.empty(), PidDescriptor.reapIfEnded(pid));
              Signal.send("KILL", pid);
              return Polling.until(PATIENCE, () -> hasEnded(ptrace, pid));
            });
    Thread tracer = new Thread(traced);
    tracer.start();
    tracer.join();

    assertTrue(traced.get());
    assertEquals(OptionalInt.of(9), job.awaitExit(PATIENCE).orElseThrow().signal());
  }

  private static boolean hasEnded(Ptrace ptrace, int pid) throws NativeCallException {
    try {
      return ptrace.reportedStop(pid).isEmpty() && !isAlive(pid);
    } catch (NativeCallException e) {
      if (e.isGone()) {
        return true;
      }
      throw e;
    }
  }

  /** Also not a zombie. */
  private static void awaitReaped(ProcessIdentity process) {
    Awaitility.await()
        .atMost(PATIENCE)
        .until(
            () ->
                ProcFs.stat(process.pid())
                    .filter(stat -> stat.startTicks() == process.startTicks())
                    .isEmpty());
  }

  @Test
  void runningJobHasNoExit() {
    LaunchedProcess job = launch(LaunchOptions.builder("sleep", "1000"));
    assertEquals(Optional.empty(), job.awaitExit(Duration.ofMillis(1)));
    assertEquals(Optional.empty(), job.exit());
    assertFalse(job.isDumped());
    assertEquals(OptionalInt.of(15), job.end(PATIENCE).orElseThrow().signal());
    assertEquals(OptionalInt.of(15), job.end(PATIENCE).orElseThrow().signal(), "again");
  }

  @Test
  void jobLeadsASessionWithoutTerminalAndHasThreeDescriptors() throws IOException {
    String stat = outputOf(LaunchOptions.builder("cat", "/proc/self/stat", "/proc/self/status"));
    String[] fields = stat.substring(stat.indexOf(')') + 2).split(" ");
    String pid = stat.substring(0, stat.indexOf(' '));
    assertEquals(List.of(pid, pid, "0"), List.of(fields[2], fields[3], fields[4]));
    assertTrue(stat.contains("SigBlk:\t0000000000000000"), stat);
    assertTrue(stat.contains("SigIgn:\t0000000000000000"), stat);
    String open = outputOf(LaunchOptions.builder("ls", "/proc/self/fd"));
    assertEquals(List.of("0", "1", "2", "3"), open.lines().toList(), "3 is what ls reads");
  }

  @Test
  void outputGoesWhereItIsToldTo() throws IOException {
    Path file = Files.writeString(directory.resolve("out"), "before\n");
    LaunchOptions.Builder both = shell("pwd; cat; echo err >&2").directory(directory);
    both.input(Files.writeString(directory.resolve("in"), "read\n"));
    launch(both.output(Redirect.appendTo(file.toFile()))).awaitExit(PATIENCE);
    String real = directory.toRealPath().toString();
    assertEquals("before\n" + real + "\nread\nerr\n", Files.readString(file));
    launch(both.output(Redirect.to(file.toFile())).error(Redirect.DISCARD)).awaitExit(PATIENCE);
    assertEquals(real + "\nread\n", Files.readString(file));

    LaunchedProcess job = launch(both.output(Redirect.to(file.toFile())).error(Redirect.PIPE));
    assertEquals(Optional.empty(), job.output());
    assertEquals("err\n", said(job.error().orElseThrow()));
  }

  @Test
  void environmentIsPassedOnWhateverItsNames() throws IOException {
    String odd = "a b.c-d\u00fc";
    LaunchOptions.Builder options =
        LaunchOptions.builder("env", "-0")
            .environment(odd, "two\nlines \u4e16")
            .environment("LD_PRELOAD", "");
    Set<String> inherited = new TreeSet<>(List.of(outputOf(options).split("\0")));
    assertTrue(inherited.contains(odd + "=two\nlines \u4e16"), inherited::toString);
    assertTrue(inherited.contains("PATH=" + System.getenv("PATH")), inherited::toString);
    assertTrue(
        inherited.stream().anyMatch(each -> each.matches("LD_PRELOAD=/.*fork-handler-.*\\.so")),
        inherited::toString);

    options.inheritEnvironment(false).dropInheritedGpu(false).environment("LD_PRELOAD", " ");
    options.environment("PATH", "/bin:/usr/bin");
    assertEquals(
        Set.of(odd + "=two\nlines \u4e16", "LD_PRELOAD= ", "PATH=/bin:/usr/bin"),
        Set.of(outputOf(options).split("\0")));

    String without =
        outputOf(LaunchOptions.builder("/usr/bin/env", "-0").removeEnvironment("PATH"));
    assertFalse(Stream.of(without.split("\0")).anyMatch(each -> each.startsWith("PATH=")));
    assertThrows(IllegalArgumentException.class, () -> options.environment("a=b", ""));
    assertThrows(IllegalArgumentException.class, () -> options.environment("a", "\0"));
  }

  @Test
  void argumentsArriveAsTheyAre() throws IOException {
    assertEquals(
        "|a b|$HOME|\u00e9\u4e16||-n|",
        outputOf(
            LaunchOptions.builder(
                "printf", "|%s|%s|%s|%s|%s|", "a b", "$HOME", "\u00e9\u4e16", "", "-n")));
  }

  private void assertRefused(Reason reason, LaunchOptions.Builder options, String... words) {
    FixAndRetryException e =
        assertReason(FixAndRetryException.class, reason, () -> launch(options));
    assertEquals(reason, e.reason(), e.getMessage());
    for (String word : words) {
      assertTrue(e.getMessage().contains(word), e.getMessage());
    }
  }

  @Test
  void whatCannotBeStartedIsRefusedWithTheReason() throws Exception {
    Path plain = Files.writeString(directory.resolve("plain"), "no program");
    Files.setPosixFilePermissions(plain, PosixFilePermissions.fromString("rw-r--r--"));
    Path fifo = directory.resolve("fifo");
    ProgramRun.of("mkfifo", fifo.toString()).succeed();
    Path none = directory.resolve("none");
    Set<Integer> before = children();
    assertRefused(Reason.LAUNCH_MISSING, LaunchOptions.builder("no-such-program"), "in the PATH");
    assertRefused(Reason.LAUNCH_MISSING, LaunchOptions.builder(none.toString()), none.toString());
    assertRefused(Reason.LAUNCH_NOT_PERMITTED, LaunchOptions.builder(plain.toString()));
    assertRefused(Reason.LAUNCH_NOT_A_DIRECTORY, shell("true").directory(plain), plain.toString());
    assertRefused(Reason.LAUNCH_MISSING, shell("true").directory(none), none.toString());
    assertRefused(
        Reason.LAUNCH_NOT_A_FILE,
        shell("true").output(Redirect.to(fifo.toFile())),
        fifo.toString());
    assertRefused(Reason.LAUNCH_NOT_A_FILE, shell("true").input(fifo), "neither a regular file");
    assertRefused(
        Reason.LAUNCH_NOT_A_FILE, shell("true").error(Redirect.appendTo(directory.toFile())));
    assertRefused(
        Reason.LAUNCH_MISSING, shell("true").output(Redirect.to(none.resolve("file").toFile())));
    assertRefused(Reason.LAUNCH_TOO_LONG, LaunchOptions.builder("true", "x".repeat(1 << 20)));
    assertNothingIsLeftSince(before);
  }

  /** Kills the process that starts a job, until a start fails because of that. */
  @Test
  @RequiresRoot("makes namespaces")
  void startThatIsKilledIsRefusedAndNothingIsLeft() throws Exception {
    Set<Integer> before = children();
    AtomicBoolean enough = new AtomicBoolean();
    Thread killer =
        new Thread(
            () -> {
              while (!enough.get()) {
                ProcessHandle.current()
                    .children()
                    .filter(child -> ProcFs.commandLine(child.pid()).contains("gpuprocess-start"))
                    .forEach(ProcessHandle::destroyForcibly);
              }
            });
    killer.start();
    try {
      Awaitility.await().atMost(PATIENCE).until(this::isStartKilled);
    } finally {
      enough.set(true);
      killer.join();
    }
    assertNothingIsLeftSince(before);
  }

  /** A job that was killed right after its start has ended by a signal. */
  private boolean isStartKilled() {
    try {
      launch(LaunchOptions.builder("sleep", "1000").isolated(true)).end(Duration.ZERO);
      return false;
    } catch (FixAndRetryException e) {
      return e.reason() == Reason.LAUNCH_KILLED;
    }
  }

  private static void assertNothingIsLeftSince(Set<Integer> before) {
    Awaitility.await().atMost(PATIENCE).until(() -> before.containsAll(children()));
  }

  private static Set<Integer> children() {
    int us = (int) ProcessHandle.current().pid();
    return ProcFs.descendants(us).stream()
        .flatMap(pid -> ProcFs.stat(pid).stream())
        .filter(stat -> stat.parent() == us)
        .map(ProcStat::pid)
        .collect(Collectors.toSet());
  }

  @Test
  void jobMayEndByItselfWhenItIsAskedTo() {
    Path ready = directory.resolve("ready");
    LaunchedProcess job =
        launch(
            shell("trap 'exit 3' TERM; echo $$ >%s; while :; do sleep 1; done".formatted(ready)));
    assertEquals(job.identity().pid(), process(ready).pid());
    assertEquals(OptionalInt.of(3), job.end(PATIENCE).orElseThrow().code());
  }

  @Test
  void jobThatDoesNotListenIsKilledAfterTheGrace() {
    Path ready = directory.resolve("ready");
    LaunchedProcess job =
        launch(shell("trap '' TERM; echo $$ >%s; while :; do sleep 1; done".formatted(ready)));
    line(ready);
    assertEquals(OptionalInt.of(9), job.end(Duration.ofMillis(100)).orElseThrow().signal());
  }

  /** One of the session, and one in a session of its own whose parent is one of the job. */
  @Test
  void allOfTheJobEndsAlsoWhenItsRootHasEndedBefore() {
    Path inSession = directory.resolve("in-session");
    Path ofItsOwn = directory.resolve("of-its-own");
    LaunchedProcess job =
        launch(
            shell(
                "(setsid sh -c 'echo $$ >%s; exec sleep 1000' & exec sh -c 'echo $$ >%s; while :; do sleep 1; done') & sleep 0.1; while ! [ -s %s -a -s %s ]; do sleep 0.1; done; exit 5"
                    .formatted(ofItsOwn, inSession, inSession, ofItsOwn)));
    assertEquals(OptionalInt.of(5), job.awaitExit(PATIENCE).orElseThrow().code());
    ProcessIdentity first = process(inSession);
    ProcessIdentity second = process(ofItsOwn);
    assertTrue(isAlive(first.pid()) && isAlive(second.pid()));
    assertEquals(OptionalInt.of(5), job.end(PATIENCE).orElseThrow().code());
    awaitGone(first);
    awaitGone(second);
  }

  private static ProcessIdentity guardOf(LaunchedProcess job) {
    return children().stream()
        .filter(pid -> ProcFs.commandLine(pid).contains("gpuprocess-guard"))
        .filter(pid -> ProcFs.commandLine(pid).contains(Long.toString(job.identity().pid())))
        .map(pid -> ProcessIdentity.of(pid).orElseThrow())
        .findFirst()
        .orElseThrow();
  }

  private static void kill(ProcessIdentity process) {
    ProcessHandle.of(process.pid())
        .filter(one -> process.isAlive())
        .orElseThrow()
        .destroyForcibly();
  }

  @Test
  void jobWhoseGuardWasKilledCanBeEnded() {
    LaunchedProcess job = launch(LaunchOptions.builder("sleep", "1000"));
    ProcessIdentity guard = guardOf(job);
    kill(guard);
    awaitGone(guard);
    assertTrue(isAlive(job.identity().pid()));
    assertEquals(OptionalInt.of(15), job.end(PATIENCE).orElseThrow().signal());
  }

  @Test
  void guardThatIsKilledIsReplacedAtOnce() {
    LaunchedProcess job = launch(LaunchOptions.builder("sleep", "1000"));
    for (int time = 0; time < 3; time++) {
      ProcessIdentity guard = guardOf(job);
      kill(guard);
      awaitGone(guard);
      Awaitility.await().atMost(PATIENCE).ignoreExceptions().until(() -> guardOf(job).isAlive());
    }
    assertTrue(isAlive(job.identity().pid()));
    assertEquals(OptionalInt.of(15), job.end(PATIENCE).orElseThrow().signal());
  }

  @Test
  void whatARootLeavesIsEndedAlsoWhenItsGuardWasKilled() {
    Path child = directory.resolve("child");
    LaunchedProcess job =
        launch(shell("sh -c 'echo $$ >%s; exec sleep 1000' & exec sleep 1000".formatted(child)));
    ProcessIdentity left = process(child);
    ProcessIdentity guard = guardOf(job);
    kill(guard);
    awaitGone(guard);
    kill(job.identity());
    assertEquals(OptionalInt.of(9), job.awaitExit(PATIENCE).orElseThrow().signal());
    Awaitility.await().atMost(PATIENCE).ignoreExceptions().until(() -> guardOf(job).isAlive());
    assertTrue(left.isAlive());
    job.end(PATIENCE);
    awaitGone(left);
  }
}
