package dev.gpuprocess.criu;

import static dev.gpuprocess.criu.Trainer.PATIENCE;
import static dev.gpuprocess.criu.Trainer.awaitMore;
import static dev.gpuprocess.criu.Trainer.count;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.ExitReports;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.Collectors;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Processes that this JVM did not launch, and that become its launched processes by a restore. */
@RequiresRoot("is the parent of what CRIU restores")
class LaunchedFromImageTest {

  @TempDir Path directory;
  private Trainer trainer;
  private LaunchedProcess process;
  private final List<ProcessIdentity> others = new ArrayList<>();

  @BeforeEach
  void buildTrainer() {
    RealCriu.assume();
    trainer = new Trainer(directory);
  }

  @AfterEach
  void endAll() {
    if (process != null) {
      process.end(Duration.ZERO);
    }
    others.stream()
        .filter(ProcessIdentity::isAlive)
        .forEach(each -> Signal.send("KILL", each.pid()));
    if (trainer != null) {
      trainer.close();
    }
  }

  private Path file() {
    return directory.resolve("count");
  }

  private Process controller(String how, Path started) throws IOException {
    List<String> command =
        TestJvm.command(
            ImageController.class,
            how,
            started.toString(),
            trainer.machine().toString(),
            directory.resolve("state").toString(),
            directory.resolve("image").toString());
    return new ProcessBuilder(command)
        .redirectErrorStream(true)
        .redirectOutput(directory.resolve("said").toFile())
        .start();
  }

  private String said() {
    try {
      return Files.readString(directory.resolve("said"));
    } catch (IOException e) {
      return e.toString();
    }
  }

  /** Dumps a trainer that the library has not launched, with a child in a session of its own. */
  private ProcessImage dumped() throws IOException {
    ProcessBuilder builder =
        new ProcessBuilder(
            "setsid",
            "sh",
            "-c",
            "setsid sleep 1000 & exec \"$0\" \"$1\" 0",
            trainer.program().toString(),
            file().toString());
    builder.environment().put("LD_LIBRARY_PATH", trainer.machine().toString());
    Process started =
        builder
            .redirectInput(Path.of("/dev/null").toFile())
            .redirectErrorStream(true)
            .redirectOutput(directory.resolve("output").toFile())
            .start();
    ProcessIdentity root = ProcessIdentity.of(started.pid()).orElseThrow();
    others.add(root);
    awaitMore(file(), 0);
    return trainer.checkpoints.process(root.pid()).suspend().dump(directory.resolve("image"));
  }

  private static List<ProcessIdentity> guards(ProcessIdentity root) {
    List<String> wanted =
        List.of("gpuprocess-guard", "" + root.pid(), "" + root.startTicks(), "yes");
    return ProcFs.descendants(ProcessHandle.current().pid()).stream()
        .filter(pid -> ProcFs.commandLine(pid).containsAll(wanted))
        .flatMap(pid -> ProcessIdentity.of(pid).stream())
        .toList();
  }

  @Test
  void exitCodeIsKnown_afterDumpsAndRestores_andWithAnotherGuard() throws Exception {
    ProcessImage image = dumped();
    int dumped = count(file());
    process = image.launch();
    ProcessIdentity first = process.identity();
    awaitMore(file(), dumped);
    assertEquals(1, guards(first).size());

    ProcessImage second = process.process().suspend().dump(directory.resolve("second"));
    assertTrue(process.isDumped(), "a dump is not its end");
    assertTrue(process.exit().isEmpty());
    dumped = count(file());
    LaunchedProcess same = second.launch();
    assertFalse(process.isDumped());
    assertEquals(same.identity(), process.identity());
    assertNotEquals(first, process.identity());
    awaitMore(file(), dumped);

    ProcessIdentity guard = guards(process.identity()).get(0);
    Signal.send("KILL", guard.pid());
    Awaitility.await()
        .atMost(PATIENCE)
        .until(() -> guards(process.identity()).stream().anyMatch(each -> !each.equals(guard)));
    assertEquals(OptionalInt.of(3), process.end(PATIENCE).orElseThrow().code());
    assertEquals(OptionalInt.of(3), same.exitCode());
    assertTrue(ProcFs.stat(first.pid()).isEmpty(), "reaped");
  }

  /** A controller that is killed while its process runs, or before the process is resumed. */
  @ParameterizedTest
  @ValueSource(strings = {"stay", "halt"})
  void processExitsWithItsControllerThatIsKilled(String how) throws Exception {
    launchByAControllerThatIsKilled(how);
    Awaitility.await()
        .atMost(PATIENCE)
        .until(() -> others.stream().noneMatch(ProcessIdentity::isAlive));
    assertTrue(
        trainer.checkpoints.recover().stream()
            .allMatch(left -> left.outcome() == RecoveryOutcome.GONE),
        "nothing is left to be resumed");
  }

  private void launchByAControllerThatIsKilled(String how) throws Exception {
    final int root = dumped().manifest().pid();
    others.clear();
    Path started = directory.resolve("started");
    Process other = controller(how, started);
    try {
      Awaitility.await()
          .atMost(Duration.ofMinutes(3))
          .until(() -> Files.exists(started) || !other.isAlive());
      assertTrue(Files.exists(started), this::said);
      Files.readAllLines(started).stream()
          .map(line -> line.split(" "))
          .map(pair -> new ProcessIdentity(Integer.parseInt(pair[0]), Long.parseLong(pair[1])))
          .forEach(others::add);
      assertEquals(root, others.get(0).pid());
      assertEquals(2, others.size(), "the root, and a child with its own session");
    } finally {
      TestJvm.end(other);
    }
  }

  @Test
  void processThatMaySurvivesItsControllerAndItsExitCodeIsKnown() throws Exception {
    launchByAControllerThatIsKilled("survive");
    ProcessIdentity root = others.get(0);
    awaitMore(file(), count(file()));
    assertTrue(others.stream().allMatch(ProcessIdentity::isAlive));
    assertEquals(Optional.empty(), trainer.checkpoints.exit(root));
    Signal.send("TERM", root.pid());
    Awaitility.await().atMost(PATIENCE).until(() -> !root.isAlive());
    boolean unused = Polling.until(PATIENCE, () -> trainer.checkpoints.exit(root).isPresent());
    ExitReports.assume(root);
    assertEquals(OptionalInt.of(3), trainer.checkpoints.exit(root).orElseThrow().code());
  }

  /** A driver whose restores call something after the library's own listener. */
  private static CriuDriver afterPostRestore(CriuDriver real, RuntimeException veto) {
    return (CriuDriver)
        Proxy.newProxyInstance(
            CriuDriver.class.getClassLoader(),
            new Class<?>[] {CriuDriver.class},
            (proxy, method, arguments) -> {
              try {
                return method.getName().equals("restore")
                    ? real.restore(
                        (RestoreRequest) arguments[0],
                        vetoing((RestoreListener) arguments[1], veto))
                    : method.invoke(real, arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  private static RestoreListener vetoing(RestoreListener listener, RuntimeException veto) {
    return new RestoreListener() {
      @Override
      public void preRestore() {
        listener.preRestore();
      }

      @Override
      public void postRestore(int pid) {
        listener.postRestore(pid);
        throw veto;
      }
    };
  }

  @Test
  void nothingIsLeftOfARestoreThatFails_andTheImageCanBeLaunchedAgain() throws Exception {
    ProcessImage image = dumped();
    int dumped = count(file());
    ProcessImage failing =
        trainer.checkpoints.toBuilder()
            .criu(
                afterPostRestore(
                    trainer.checkpoints.criu(), new IllegalStateException("not today")))
            .build()
            .open(image.directory());
    Set<Integer> before = ourChildren();
    assertThrows(CriuException.class, failing::launch);
    assertEquals(before, ourChildren(), "neither a guard nor a process");
    awaitFreePids(image);

    FixAndRetryException refused =
        assertThrows(
            FixAndRetryException.class,
            () ->
                image.launch(
                    RestoreOptions.builder().verify(root -> false, PATIENCE).build(),
                    ResumeOptions.ofDefaults()));
    assertEquals(FixAndRetryException.Reason.CHECK_FAILED, refused.reason());
    awaitFreePids(image);
    process = image.launch();
    awaitMore(file(), dumped);
    assertEquals(OptionalInt.of(3), process.end(PATIENCE).orElseThrow().code());
  }

  /** Init reaps the child in a session of its own, which may take a while. */
  private static void awaitFreePids(ProcessImage image) {
    Awaitility.await()
        .atMost(PATIENCE)
        .until(
            () ->
                image.manifest().processes().stream()
                    .allMatch(each -> ProcFs.stat(each.pid()).isEmpty()));
  }

  private static Set<Integer> ourChildren() {
    return ProcFs.descendants(ProcessHandle.current().pid()).stream().collect(Collectors.toSet());
  }
}
