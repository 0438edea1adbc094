package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.internal.process.CriuBinary;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
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

/** Faults between a command and the CRIU that it starts. */
@NullUnmarked
@RequiresCriu
class ByCommandTrapsTest {

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

  private DumpDirectories site(String... command) {
    return DumpDirectories.in(directory.resolve("site"), RpcCriuDriver.through(List.of(command)));
  }

  /** A stand-in for sudo: a program that starts CRIU, in whatever way. */
  private String wrapper(String text) {
    return FakeCriu.write(directory.resolve("wrapper"), "#!/bin/sh\n" + text).toString();
  }

  private void assertGoesThere(DumpDirectories site) {
    site.dump(workload.identity(), DumpDirectories.dump().build());
    assertFalse(workload.identity().isAlive());
    ProcessIdentity restored =
        site.restore(workload.pid(), DumpDirectories.shellJob().build()).process();
    try {
      workload.assertGoesOn();
    } finally {
      Workload.end(restored);
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

  /** The command starts CRIU once, for the version. */
  private String answersFirst() {
    Path asked = directory.resolve("asked");
    return "[ -e %s ] || { : > %s; exec %s \"$@\"; }%n".formatted(asked, asked, criu);
  }

  @Test
  void aWrapperThatHangs_isEndedWithAllBelowIt() {
    DumpDirectories site = site(wrapper(answersFirst() + "sleep 1000; :"));
    DumpOptions hasty = DumpOptions.builder().deadline(Duration.ofMillis(500)).build();
    OperationTimedOutException e =
        assertThrows(OperationTimedOutException.class, () -> site.dump(workload.identity(), hasty));
    assertTrue(e.getMessage().contains("CRIU was ended, the process runs on"), e.getMessage());
    workload.assertGoesOn();
  }

  @Test
  void aCancellation_endsIt() {
    Path begun = directory.resolve("begun");
    DumpDirectories site = site(wrapper(answersFirst() + ": > " + begun + "; sleep 1000; :"));
    Cancellation cancellation = new Cancellation();
    CompletableFuture<Void> canceller =
        Canceller.when(cancellation, () -> Files.exists(begun), "the wrapper to begin");
    DumpOptions options = DumpDirectories.dump().cancellation(cancellation).build();
    assertThrows(OperationCancelledException.class, () -> site.dump(workload.identity(), options));
    canceller.join();
    workload.assertGoesOn();
  }

  @Test
  void aRestoreThatSpins_behindAWrapper_isEndedWithoutAStray() throws IOException {
    DumpDirectories site = site(wrapper(criu + " \"$@\"; exit $?"));
    site.dump(workload.identity(), DumpDirectories.dump().build());
    for (Path pages : site.images("pages-")) {
      RestoreTraps.cut(pages);
    }
    RestoreOptions options =
        DumpDirectories.shellJob().criu(c -> c.logLevel(1)).deadline(Duration.ofSeconds(8)).build();
    OperationTimedOutException e =
        assertThrows(OperationTimedOutException.class, () -> site.restore(workload.pid(), options));
    assertTrue(e.getMessage().contains("nothing of it is left"), e.getMessage());
    Workload.await(
        () -> ProcessIdentity.of(workload.pid()).isEmpty(), "init to reap the half-built task");
  }

  @Test
  void aCommandThatIsNotThere_isNamed() {
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.NO_CRIU,
            () -> RpcCriuDriver.through(List.of("no-such-sudo", "criu")).version());
    assertTrue(e.getMessage().contains("no-such-sudo"), e.getMessage());
  }

  @Test
  void aCommandThatRefuses_isQuoted() {
    String refusing = wrapper("echo sudo: a password is required >&2; exit 1");
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.NO_CRIU,
            () -> RpcCriuDriver.through(List.of(refusing)).version());
    assertTrue(e.getMessage().contains("exit 1, sudo: a password is required"), e.getMessage());
  }

  @Test
  void aCommandThatIsNoCriu_isRefused() {
    assertReason(
        MachineUnfitException.class,
        MachineUnfitException.Reason.NO_CRIU,
        () -> RpcCriuDriver.through(List.of("true")).version());
    assertThrows(IllegalArgumentException.class, () -> RpcCriuDriver.through(List.of()));
  }

  @Test
  void aCriuThatIsKilled_leavesTheProcessRunning() {
    DumpDirectories site = site(criu);
    CriuException e =
        assertThrows(
            CriuException.class,
            () ->
                site.dump(
                    workload.identity(),
                    DumpDirectories.dump().build(),
                    new DumpListener() {
                      @Override
                      public void postDump() {
                        long tracer =
                            Long.parseLong(ProcFs.status(workload.pid()).get("TracerPid"));
                        ProcessHandle.of(tracer).ifPresent(ProcessHandle::destroyForcibly);
                      }
                    }));
    assertTrue(
        e.getMessage().contains("signal 9") || e.getMessage().contains("exit 137"), e.getMessage());
    workload.assertGoesOn();
  }

  @Test
  void anotherUsersProcess_whoseLimitsRootMayNotRead_namesTheCapability() {
    Assumptions.assumeTrue(CurrentUser.isRoot(), "not root");
    String user = Integer.toString(AnotherUser.ID);
    DumpDirectories site =
        site(wrapper("exec setpriv --bounding-set -sys_resource " + criu + " \"$@\""));
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
              CriuException.class,
              () -> site.dump(theirs.identity(), DumpDirectories.dump().build()));
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
              CriuException.class,
              () -> site(criu).dump(workload.identity(), DumpDirectories.dump().build()));
      assertTrue(e.getMessage().contains("traced by process " + tracer.pid()), e.getMessage());
    }
    workload.assertGoesOn();
  }

  @Test
  void aWrapperThatClosesStandardInput_isQuoted() {
    String closing = wrapper("exec " + criu + " \"$@\" <&-");
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.NO_CRIU,
            () -> RpcCriuDriver.through(List.of(closing)).version());
    assertTrue(e.getMessage().contains("does not report its version"), e.getMessage());
  }

  /** As sudo does with log_input. */
  @Test
  void aWrapperThatPutsAPipeIntoTheSocketsPlace_isToldFromOthers() {
    String piping = wrapper("cat | " + criu + " \"$@\"");
    CriuFinder finder =
        new CriuFinder(
            CriuLocator.through(List.of(piping)), CriuBinary.kernel(), Duration.ofSeconds(20));
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class,
            MachineUnfitException.Reason.NO_CRIU,
            () -> finder.find("version"));
    assertTrue(e.getMessage().contains("NOLOG_INPUT"), e.getMessage());
  }

  @Test
  void aWrapperThatIsKilled_doesNotHarmTheDump() {
    DumpDirectories site = site(wrapper(criu + " \"$@\"; exit $?"));
    int self = Math.toIntExact(ProcessHandle.current().pid());
    site.dump(
        workload.identity(),
        DumpDirectories.dump().build(),
        new DumpListener() {
          @Override
          public void postDump() {
            ProcFs.descendants(self).stream()
                .filter(pid -> String.join(" ", ProcFs.commandLine(pid)).contains("/wrapper "))
                .forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
          }
        });
    assertFalse(workload.identity().isAlive());
    Workload.end(site.restore(workload.pid(), DumpDirectories.shellJob().build()).process());
  }
}
