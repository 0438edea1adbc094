package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.cuda.jnr.LibCuda;
import dev.gpuprocess.cuda.jnr.LibNvml;
import dev.gpuprocess.doctor.Diagnosis;
import dev.gpuprocess.dumped.DumpedProcess;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.RestoreListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/**
 * What is another matter when CRIU is root's and this JVM is not: it can neither read what CRIU
 * writes nor end it.
 */
@NullUnmarked
@Execution(ExecutionMode.CONCURRENT)
class UserScenarios {

  @TempDir Path directory;
  private Site site;
  private final Cancellation cancellation = new Cancellation();

  /** The command that the environment names. */
  static CriuDriver commandLine() {
    return new CliCriuDriver(command());
  }

  private static List<String> command() {
    return List.of(System.getenv(AutomaticCriuDriver.VARIABLE).split(" "));
  }

  @BeforeEach
  void makeSite() {
    assertFalse(Posix.isRoot());
    site = Site.in(directory.resolve("site"), commandLine());
  }

  /** Nor the shells that CRIU's script leaves. */
  @AfterEach
  void nothingOfRootsIsLeft() {
    Workload.await(
        () -> AnotherUser.argumentsWith(directory + "/").isEmpty(),
        "all of root's for this test to end");
  }

  private static void assertCancelled(
      CompletableFuture<Void> cancelled, Fate fate, String criu, Executable verb) {
    OperationCancelledException e = assertThrows(OperationCancelledException.class, verb);
    cancelled.join();
    assertEquals(fate, e.failure().fate(), e.getMessage());
    assertTrue(e.getMessage().contains(criu), e.getMessage());
  }

  private static void assertOurs(Path tree) throws IOException {
    try (Stream<Path> files = Files.walk(tree)) {
      for (Path file : files.toList()) {
        assertEquals(Files.getAttribute(Path.of("/proc/self"), "unix:uid"), owner(file), "" + file);
      }
    }
  }

  private static Object owner(Path file) throws IOException {
    return Files.getAttribute(file, "unix:uid", LinkOption.NOFOLLOW_LINKS);
  }

  @Test
  void whatRootWrites_isOursToRead() throws IOException {
    try (Workload workload = Workload.counter(directory, 2)) {
      site.dump(workload.identity(), Site.dump().build());
      assertOurs(site.images());
      assertOurs(site.work());
      assertEquals(
          List.of(workload.pid()),
          site.driver().describe(site.images()).processes().stream()
              .map(DumpedProcess::pid)
              .toList());
      ProcessIdentity restored = site.restore(workload.pid(), Site.shellJob().build()).process();
      try {
        workload.assertGoesOn();
        assertOurs(site.work());
      } finally {
        Workload.end(restored);
      }
    }
  }

  @Test
  void anImage_isVerified_andRestored() throws IOException {
    Path image = directory.resolve("image");
    try (Workload workload = Workload.counter(directory, 2)) {
      PlainImage.dump(site.driver(), workload.identity(), image, false);
      assertOurs(image);
      ProcessIdentity restored =
          PlainImage.restore(site.driver(), image, site.work(), RestoreListener.NONE).process();
      try {
        workload.assertGoesOn();
      } finally {
        Workload.end(restored);
      }
    }
  }

  /** CRIU waits for a page server that never answers. */
  @Test
  void aDump_cancelledWhileRootIsAtIt_letsTheProcessRun() throws IOException {
    try (Workload workload = Workload.counter(directory);
        ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      PageEndpoint endpoint =
          new PageEndpoint(silent.getInetAddress().getHostAddress(), silent.getLocalPort());
      DumpOptions options = Site.dump().pageServer(endpoint).cancellation(cancellation).build();
      CompletableFuture<Void> cancelled =
          CompletableFuture.runAsync(
              () -> {
                try (Socket criu = silent.accept()) {
                  assertTrue(criu.getInputStream().read() >= 0);
                  cancellation.cancel();
                  assertTrue(criu.getInputStream().readAllBytes().length > 0);
                } catch (IOException e) {
                  throw new UncheckedIOException(e);
                }
              });
      assertCancelled(
          cancelled,
          Fate.RUNNING_AGAIN,
          "CRIU was ended",
          () -> site.dump(workload.identity(), options));
      workload.assertGoesOn();
    }
  }

  /** With truncated pages CRIU would never end by itself. */
  @Test
  void aRestore_cancelledWhileRootIsAtIt_leavesNothing_andCanBeRepeated() throws IOException {
    try (Workload workload = Workload.counter(directory, 2)) {
      site.dump(workload.identity(), Site.dump().build());
      Path pages = site.images("pages-").get(0);
      byte[] whole = Files.readAllBytes(pages);
      RestoreTraps.cut(pages);
      RestoreOptions options = Site.shellJob().logLevel(1).cancellation(cancellation).build();
      CompletableFuture<Void> cancelled =
          Canceller.when(
              cancellation,
              () -> ProcessIdentity.of(workload.pid()).isPresent(),
              "a half-restored process");
      assertCancelled(
          cancelled,
          Fate.HALF_RESTORED_REMOVED,
          "CRIU was ended",
          () -> site.restore(workload.pid(), options));
      Workload.await(() -> ProcessIdentity.of(workload.pid()).isEmpty(), "the pid to be free");
      Files.write(pages, whole);
      Workload.end(site.restore(workload.pid(), Site.shellJob().build()).process());
    }
  }

  /**
   * Goes to CRIU by a program of root's that waits for a file, and before it does something else.
   */
  private Site slowly(Path released, String before) {
    List<String> command = new ArrayList<>(command());
    String criu = command.remove(command.size() - 1);
    String text =
        """
        #!/bin/sh
        [ $1 = --version ] && exec %s --version
        %s
        until [ -e %s ]; do sleep 0.01; done
        exec %s "$@"
        """
            .formatted(criu, before, released, criu);
    command.add(FakeCriu.write(directory.resolve("slow"), text).toString());
    return site.with(new CliCriuDriver(command));
  }

  private void assertCancelledBeforeItsFirstStage(Workload workload, Site slow, String criu) {
    CompletableFuture<Void> cancelled =
        Canceller.when(cancellation, () -> Files.exists(begun()), "root to begin");
    DumpOptions options = Site.dump().cancellation(cancellation).build();
    assertCancelled(
        cancelled, Fate.RUNNING_AGAIN, criu, () -> slow.dump(workload.identity(), options));
    workload.assertGoesOn();
  }

  private Path begun() {
    return directory.resolve("begun");
  }

  @Test
  void aDump_cancelledBeforeItsFirstStage_isAskedToEnd() {
    Site slow = slowly(directory.resolve("never"), ": > " + begun());
    try (Workload workload = Workload.counter(directory)) {
      assertCancelledBeforeItsFirstStage(workload, slow, "CRIU was ended");
    }
  }

  @Test
  void aDump_cancelledBeforeItsFirstStage_thatDoesNotEnd_isRefusedThere() {
    Path released = directory.resolve("released");
    Site slow = slowly(released, "trap '' TERM; : > " + begun());
    try (Workload workload = Workload.counter(directory)) {
      assertCancelledBeforeItsFirstStage(workload, slow, "cannot be ended from here");
      FakeCriu.write(released, "");
      Workload.await(
          () -> AnotherUser.argumentsWith("--tree=" + workload.pid()).isEmpty(),
          "CRIU to be refused");
      workload.assertGoesOn();
    }
  }

  @Test
  void theCommandInTheEnvironment_isUsed() {
    assertInstanceOf(CliCriuDriver.class, new AutomaticCriuDriver().chosen());
  }

  @Test
  void theStateDirectory_isNotThatOfAnotherWithoutAName() throws IOException {
    Path standard = GpuCheckpoints.standard().stateDirectory();
    Object self = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    assertEquals("gpuprocess-" + self, "" + standard.getFileName());
  }

  @Test
  void theMainJob_isDone() throws IOException {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(LibCuda.in(machine.directory()), LibNvml.in(machine.directory()))
              .build();
      Path image = directory.resolve("image");
      assertEquals(101, counter.increment());
      CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
      Diagnosis diagnosis = checkpoints.doctor(counter.pid(), image, DumpOptions.ofDefaults());
      assertEquals(List.of(), diagnosis.problems(), diagnosis::toString);
      ProcessImage dumped = suspended.dump(image);
      assertFalse(counter.isAlive());
      assertOurs(image);
      dumped.verify();
      RunningProcess again = checkpoints.open(image).restore().resume();
      assertEquals(counter.pid(), again.pid());
      assertEquals(102, counter.increment());
    }
  }
}
