package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.UnsupportedOptionException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.InheritedDescriptor;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What can go wrong on the way to a CRIU that is a command: sudo, wrappers, the script. */
@NullUnmarked
@RequiresCriu
class CliTrapsTest {

  @TempDir Path directory;
  private String criu;
  private Workload workload;

  @BeforeEach
  void start() {
    criu = RealCriu.command().get(0);
    workload = Workload.counter(directory, 2);
  }

  @AfterEach
  void nothingIsLeft() {
    workload.close();
    assertEquals(List.of(), ProcFs.descendants(ProcessHandle.current().pid()));
  }

  private Site site(String... command) {
    return Site.in(directory.resolve("site"), new CliCriuDriver(List.of(command)));
  }

  /** A stand-in for sudo: a program that starts CRIU, in whatever way. */
  private String wrapper(String text) {
    return FakeCriu.write(directory.resolve("wrapper"), "#!/bin/sh\n" + text).toString();
  }

  private void assertGoesThere(Site site) {
    site.dump(workload.identity(), Site.dump().build());
    assertFalse(workload.identity().isAlive());
    ProcessIdentity restored = site.restore(workload.pid(), Site.shellJob().build()).process();
    try {
      workload.assertGoesOn();
      assertEquals(List.of(), stages(site.work()));
    } finally {
      Workload.end(restored);
    }
  }

  private static List<Path> stages(Path work) {
    try (var files = Files.list(work)) {
      return files.filter(file -> file.toString().contains("stages-")).toList();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void aWrapperThatBecomesCriu_leadsToIt() {
    assertGoesThere(site(wrapper("exec " + criu + " \"$@\"")));
  }

  @Test
  void aWrapperThatWaitsForCriu_leadsToIt() {
    assertGoesThere(site(wrapper(criu + " \"$@\"; exit $?")));
  }

  @Test
  void sudo_leadsToIt() {
    Assumptions.assumeTrue(isPermitted("sudo", "-n", "true"), "no sudo");
    assertGoesThere(site("sudo", "-n", criu));
  }

  private static boolean isPermitted(String... command) {
    try {
      Command.run(command);
      return true;
    } catch (AssertionError | java.io.UncheckedIOException e) {
      return false;
    }
  }

  @Test
  void aWrapperThatHangs_isEndedWithAllBelowIt() {
    Site site = site(wrapper("[ $1 = --version ] && exec " + criu + " --version; sleep 1000; :"));
    DumpOptions hasty = DumpOptions.builder().deadline(Duration.ofMillis(500)).build();
    OperationTimedOutException e =
        assertThrows(OperationTimedOutException.class, () -> site.dump(workload.identity(), hasty));
    assertTrue(e.getMessage().contains("CRIU was ended, the process runs on"), e.getMessage());
    workload.assertGoesOn();
  }

  @Test
  void aCancellation_endsIt() {
    Path begun = directory.resolve("begun");
    String hangs = "[ $1 = --version ] && exec " + criu + " --version; : > " + begun;
    Site site = site(wrapper(hangs + "; sleep 1000; :"));
    Cancellation cancellation = new Cancellation();
    CompletableFuture<Void> canceller =
        Canceller.when(cancellation, () -> Files.exists(begun), "the wrapper to begin");
    DumpOptions options = Site.dump().cancellation(cancellation).build();
    assertThrows(OperationCancelledException.class, () -> site.dump(workload.identity(), options));
    canceller.join();
    workload.assertGoesOn();
  }

  @Test
  void aRestoreThatSpins_behindAWrapper_isEndedWithoutAStray() throws IOException {
    Site site = site(wrapper(criu + " \"$@\"; exit $?"));
    site.dump(workload.identity(), Site.dump().build());
    for (Path pages : site.images("pages-")) {
      RestoreTraps.cut(pages);
    }
    RestoreOptions options = Site.shellJob().logLevel(1).deadline(Duration.ofSeconds(2)).build();
    OperationTimedOutException e =
        assertThrows(OperationTimedOutException.class, () -> site.restore(workload.pid(), options));
    assertTrue(e.getMessage().contains("nothing of it is left"), e.getMessage());
    Workload.await(
        () -> ProcessIdentity.of(workload.pid()).isEmpty(), "init to reap the half-built task");
  }

  @Test
  void aCommandThatIsNotThere_isNamed() {
    CriuUnavailableException e =
        assertThrows(
            CriuUnavailableException.class,
            () -> new CliCriuDriver(List.of("sudo-as-nobody-has-it", "criu")).version());
    assertTrue(e.getMessage().contains("sudo-as-nobody-has-it"), e.getMessage());
  }

  @Test
  void aCommandThatRefuses_isQuoted() {
    String refusing = wrapper("echo sudo: a password is required >&2; exit 1");
    CriuUnavailableException e =
        assertThrows(
            CriuUnavailableException.class, () -> new CliCriuDriver(List.of(refusing)).version());
    assertTrue(e.getMessage().contains("exit 1, sudo: a password is required"), e.getMessage());
  }

  @Test
  void aCommandThatIsNoCriu_isRefused() {
    assertThrows(
        CriuUnavailableException.class, () -> new CliCriuDriver(List.of("true")).version());
    assertThrows(IllegalArgumentException.class, () -> new CliCriuDriver(List.of()));
  }

  @Test
  void aCriuThatIsKilled_leavesTheProcessRunning() {
    Site site = site(criu);
    CriuException e =
        assertThrows(
            CriuException.class,
            () ->
                site.dump(
                    workload.identity(),
                    Site.dump().build(),
                    new DumpListener() {
                      @Override
                      public void postDump() {
                        long tracer =
                            Long.parseLong(ProcFs.status(workload.pid()).get("TracerPid"));
                        ProcessHandle.of(tracer).ifPresent(ProcessHandle::destroyForcibly);
                      }
                    }));
    assertTrue(e.getMessage().contains("signal 9"), e.getMessage());
    workload.assertGoesOn();
  }

  @Test
  void anotherUsersProcess_whoseLimitsRootMayNotRead_namesTheCapability() {
    Assumptions.assumeTrue(Posix.isRoot(), "not root");
    String user = Integer.toString(AnotherUser.ID);
    Site site = site(wrapper("exec setpriv --bounding-set -sys_resource " + criu + " \"$@\""));
    try (Workload theirs =
        Workload.of(
            "setpriv", "--reuid", user, "--regid", user, "--clear-groups", "sleep", "1000")) {
      Workload.await(
          () ->
              Processes.stat(theirs.identity())
                  .filter(stat -> stat.name().equals("sleep"))
                  .isPresent(),
          "setpriv to become sleep");
      CriuException e =
          assertThrows(
              CriuException.class, () -> site.dump(theirs.identity(), Site.dump().build()));
      assertTrue(e.getMessage().contains("give CRIU CAP_SYS_RESOURCE"), e.getMessage());
      assertTrue(theirs.identity().isAlive());
    }
  }

  @Test
  void aProcessThatIsTraced_isSaidToBe() {
    String program =
        "syscall(101, 0x4206, $ARGV[0] + 0, 0, 0) == 0 or die;"
            + " open my $f, '>', $ARGV[1]; sleep 1000";
    Path ready = directory.resolve("ready");
    try (Workload tracer =
        Workload.of("perl", "-e", program, Integer.toString(workload.pid()), ready.toString())) {
      Workload.await(() -> Files.exists(ready) || !tracer.identity().isAlive(), "a tracer");
      Assumptions.assumeTrue(Files.exists(ready), "no tracer");
      CriuException e =
          assertThrows(
              CriuException.class, () -> site(criu).dump(workload.identity(), Site.dump().build()));
      assertTrue(e.getMessage().contains("traced by process " + tracer.pid()), e.getMessage());
    }
    workload.assertGoesOn();
  }

  @Test
  void whatTheCommandLineCannotSay_isRefused_andNamesTheOtherDriver() {
    Site site = site(criu);
    site.dump(workload.identity(), Site.backup().build());
    for (RestoreOptions options :
        List.of(
            Site.shellJob().inherit(InheritedDescriptor.pipe(1).by(0)).build(),
            Site.shellJob().orphanTerminals(true).build())) {
      Workload none = workload;
      none.close();
      UnsupportedOptionException e =
          assertThrows(UnsupportedOptionException.class, () -> site.restore(none.pid(), options));
      assertTrue(e.getMessage().contains("RpcCriuDriver"), e.getMessage());
    }
  }

  /** CRIU looks for this option inside of the values of others. */
  @Test
  void aValueThatCriuWouldMistakeForAConfigFile_isRefused() {
    DumpOptions options =
        Site.dump().external(External.mount(Path.of("/a--config=/tmp/b"), "x")).build();
    assertThrows(
        UnsupportedOptionException.class, () -> site(criu).dump(workload.identity(), options));
    workload.assertGoesOn();
  }

  @Test
  void aWorkDirectoryWithoutPrograms_isNoObstacle() throws IOException {
    Site site = site(criu);
    try (TmpFs noexec = TmpFs.mount(site.work(), "noexec")) {
      assertNotNull(noexec);
      assertGoesThere(site);
    }
  }
}
