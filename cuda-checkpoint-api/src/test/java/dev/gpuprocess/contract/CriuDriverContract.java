package dev.gpuprocess.contract;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What holds for any {@link CriuDriver}, tried on real processes with the real CRIU. Extend it with
 * your driver. Needs perl, and the rights that CRIU needs.
 */
public abstract class CriuDriverContract {

  private static final RestoreOptions AS_SHELL_JOB =
      RestoreOptions.builder().criu(c -> c.shellJob(true)).deadline(Duration.ofSeconds(30)).build();

  /** Files of the test. */
  @TempDir protected Path directory;

  private Path images;
  private Path work;

  /** For subclasses. */
  protected CriuDriverContract() {}

  /**
   * The driver under test.
   *
   * @return the driver, or an aborted test where there is no CRIU
   */
  protected abstract CriuDriver driver();

  @BeforeEach
  void createDirectories() throws IOException {
    images = Files.createDirectory(directory.resolve("images"));
    work = Files.createDirectory(directory.resolve("work"));
  }

  private static DumpOptions.Builder dumpOptions() {
    return DumpOptions.builder().deadline(Duration.ofSeconds(30));
  }

  private DumpRequest dumpOf(ProcessIdentity process) {
    return new DumpRequest(process, images, work, dumpOptions().build());
  }

  private DumpRequest backupOf(ProcessIdentity process) {
    return new DumpRequest(process, images, work, dumpOptions().leaveRunning(true).build());
  }

  private RestoreRequest restoreOf(int pid) {
    return new RestoreRequest(images, work, pid, AS_SHELL_JOB);
  }

  @Test
  void version_isTold() {
    assertTrue(driver().version().matches("[3-9]\\.\\d+(\\.\\d+)?"), driver().version());
  }

  @Test
  void check_passes() {
    driver().check();
  }

  @Test
  void dump_endsTheProcess_restore_letsItGoOnWhereItWas() {
    try (Workload workload = Workload.counter(directory, 8)) {
      DumpReport dump = driver().dump(dumpOf(workload.identity()), DumpListener.NONE);
      long counted = workload.count();

      assertFalse(workload.identity().isAlive());
      assertTrue(dump.bytes() >= 8L << 20, dump::toString);
      assertTrue(dump.frozen().compareTo(Duration.ZERO) > 0, dump::toString);
      assertEquals(Optional.empty(), ProcessIdentity.of(workload.pid()));

      RestoreReport restore = driver().restore(restoreOf(workload.pid()), RestoreListener.NONE);
      try {
        assertEquals(workload.pid(), restore.process().pid());
        assertTrue(restore.process().isAlive());
        assertTrue(restore.bytes() >= 8L << 20, restore::toString);
        assertTrue(workload.count() >= counted);
        workload.assertGoesOn();
      } finally {
        Workload.end(restore.process());
      }
    }
  }

  @Test
  void dump_ofASessionLeader_restoresWithoutShellJob() {
    try (Workload workload = Workload.of("setsid", "sleep", "1000")) {
      int leader = workload.pid();
      Workload.await(
          () -> ProcFs.stat(leader).filter(stat -> stat.name().equals("sleep")).isPresent(),
          "setsid to become sleep");
      driver().dump(dumpOf(workload.identity()), DumpListener.NONE);
      RestoreOptions options = RestoreOptions.builder().deadline(Duration.ofSeconds(30)).build();
      RestoreReport restore =
          driver().restore(new RestoreRequest(images, work, leader, options), RestoreListener.NONE);
      try {
        assertTrue(restore.process().isAlive());
        assertTrue(ProcFs.stat(leader).orElseThrow().leadsSession());
      } finally {
        Workload.end(restore.process());
      }
    }
  }

  @Test
  void dump_leavingItRunning_leavesItRunning() {
    try (Workload workload = Workload.counter(directory)) {
      driver().dump(backupOf(workload.identity()), DumpListener.NONE);
      assertTrue(Files.exists(images.resolve("pstree.img")));
      workload.assertGoesOn();
      assertTrue(workload.identity().isAlive());
    }
  }

  @Test
  void dump_tellsItsStagesInOrder_onTheCallersThread() {
    List<String> stages = new ArrayList<>();
    Thread caller = Thread.currentThread();
    try (Workload workload = Workload.counter(directory)) {
      driver()
          .dump(
              backupOf(workload.identity()),
              new DumpListener() {
                @Override
                public void preDump() {
                  stages.add("pre-dump");
                  assertSame(caller, Thread.currentThread());
                }

                @Override
                public void postDump() {
                  stages.add("post-dump");
                  assertSame(caller, Thread.currentThread());
                  assertTrue(Files.exists(images.resolve("pstree.img")));
                  assertTrue(Processes.stat(workload.identity()).orElseThrow().isStopped());
                }
              });
    }
    assertEquals(List.of("pre-dump", "post-dump"), stages);
  }

  @Test
  void dump_vetoedBeforeAnythingIsStopped_letsTheProcessRun() {
    RuntimeException veto = new IllegalStateException("not today");
    assertDumpVetoed(
        veto,
        new DumpListener() {
          @Override
          public void preDump() {
            throw veto;
          }
        });
  }

  @Test
  void dump_vetoedWhenTheImagesAreComplete_letsTheProcessRun() {
    RuntimeException veto = new IllegalStateException("fsync failed");
    assertDumpVetoed(
        veto,
        new DumpListener() {
          @Override
          public void postDump() {
            throw veto;
          }
        });
  }

  @Test
  void dump_whoseListenerFailsAnAssertion_letsTheProcessRun() {
    AssertionError error = new AssertionError("a bug in the listener");
    assertDumpVetoed(
        error,
        new DumpListener() {
          @Override
          public void postDump() {
            throw error;
          }
        });
  }

  private void assertDumpVetoed(Throwable veto, DumpListener listener) {
    try (Workload workload = Workload.counter(directory)) {
      CriuException e =
          assertThrows(
              CriuException.class, () -> driver().dump(dumpOf(workload.identity()), listener));
      assertSame(veto, e.getCause());
      assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
      assertTrue(e.getMessage().contains(String.valueOf(veto.getMessage())), e.getMessage());
      assertTrue(workload.identity().isAlive());
      workload.assertGoesOn();
    }
  }

  @Test
  void dump_ofNoProcess_saysSo() {
    ProcessIdentity ended;
    try (Workload workload = Workload.of("sleep", "1000")) {
      ended = workload.identity();
    }
    NoSuchProcessException e =
        assertThrows(
            NoSuchProcessException.class, () -> driver().dump(dumpOf(ended), DumpListener.NONE));
    assertTrue(e.getMessage().contains("no process " + ended.pid()), e.getMessage());
    assertEquals(ended.pid(), e.failure().pid());
  }

  @Test
  void dump_ofARecycledPid_leavesTheOtherAlone() {
    try (Workload workload = Workload.counter(directory)) {
      ProcessIdentity former =
          new ProcessIdentity(workload.pid(), workload.identity().startTicks() - 1);
      NoSuchProcessException e =
          assertThrows(
              NoSuchProcessException.class, () -> driver().dump(dumpOf(former), DumpListener.NONE));
      assertTrue(e.getMessage().contains("belongs to another"), e.getMessage());
      workload.assertGoesOn();
    }
  }

  @Test
  void dump_ofAZombie_namesTheParentThatDoesNotReap() {
    try (Workload parent = Workload.of("perl", "-e", "fork or exit; sleep 1000")) {
      ProcessIdentity zombie = awaitZombie(parent);
      NoSuchProcessException e =
          assertThrows(
              NoSuchProcessException.class, () -> driver().dump(dumpOf(zombie), DumpListener.NONE));
      assertTrue(e.getMessage().contains("its parent " + parent.pid()), e.getMessage());
    }
  }

  private static ProcessIdentity awaitZombie(Workload parent) {
    Workload.await(
        () ->
            ProcFs.descendants(parent.pid()).stream()
                .anyMatch(child -> ProcFs.stat(child).filter(s -> s.isDead()).isPresent()),
        "a zombie");
    return ProcessIdentity.of(ProcFs.descendants(parent.pid()).get(0)).orElseThrow();
  }

  @Test
  void dump_ofThisJvm_isRefused() {
    ProcessIdentity self = ProcessIdentity.of(ProcessHandle.current().pid()).orElseThrow();
    assertThrows(
        IllegalArgumentException.class, () -> driver().dump(dumpOf(self), DumpListener.NONE));
  }

  @Test
  void dump_intoNoDirectory_saysSo() throws IOException {
    Files.delete(images);
    assertDirectoryRefused("does not exist");
    Files.createFile(images);
    assertDirectoryRefused("is not a directory");
  }

  @Test
  void dump_overAnotherImage_isRefused() throws IOException {
    Files.createFile(images.resolve("pstree.img"));
    assertDirectoryRefused("is not empty");
  }

  private void assertDirectoryRefused(String why) {
    try (Workload workload = Workload.counter(directory)) {
      ImageException e =
          assertReason(
              ImageException.class,
              ImageException.Reason.DIRECTORY,
              () -> driver().dump(dumpOf(workload.identity()), DumpListener.NONE));
      assertTrue(e.getMessage().contains(why), e.getMessage());
      workload.assertGoesOn();
    }
  }

  @Test
  void dump_ontoAFullDisk_letsTheProcessRun() throws IOException {
    try (TmpFs tmpfs = TmpFs.mount(images, "size=1m");
        Workload workload = Workload.counter(directory, 8)) {
      assertNotNull(tmpfs);
      ImageException e =
          assertReason(
              ImageException.class,
              ImageException.Reason.DISK_FULL,
              () -> driver().dump(dumpOf(workload.identity()), DumpListener.NONE));
      assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
      workload.assertGoesOn();
    }
  }

  @Test
  void dump_ontoAReadOnlyDisk_letsTheProcessRun() throws IOException {
    try (TmpFs tmpfs = TmpFs.mount(images, "ro")) {
      assertNotNull(tmpfs);
      assertDirectoryRefused("cannot be written to");
    }
  }

  @Test
  void dump_withAConnection_namesTheOptionThatAllowsIt() {
    String program =
        """
        use Socket;
        socket(my $l, AF_INET, SOCK_STREAM, 0); bind $l, pack_sockaddr_in(0, INADDR_LOOPBACK);
        listen $l, 1; socket(my $c, AF_INET, SOCK_STREAM, 0); connect $c, getsockname $l;
        accept my $a, $l; open my $f, '>', $ARGV[0];
        sleep 1000 while 1; # CRIU interrupts the call
        """;
    Path ready = directory.resolve("ready");
    try (Workload workload = Workload.of("perl", "-e", program, ready.toString())) {
      Workload.await(() -> Files.exists(ready), "a connection");
      CriuException e =
          assertThrows(
              CriuException.class,
              () -> driver().dump(dumpOf(workload.identity()), DumpListener.NONE));
      assertTrue(e.getMessage().contains("CriuOptions.set(\"tcp-established\")"), e.getMessage());
      assertTrue(
          e.criu().orElseThrow().firstError().contains("Connected TCP socket"),
          e.criu().orElseThrow()::firstError);
      assertTrue(workload.identity().isAlive());
    }
  }

  @Test
  void dump_thatTakesTooLong_isEndedAndTheProcessRuns() {
    try (Workload workload = Workload.counter(directory)) {
      DumpOptions hasty = DumpOptions.builder().deadline(Duration.ofMillis(500)).build();
      OperationTimedOutException e =
          assertThrows(
              OperationTimedOutException.class,
              () ->
                  driver()
                      .dump(
                          new DumpRequest(workload.identity(), images, work, hasty),
                          new DumpListener() {
                            @Override
                            public void postDump() {
                              // From here: the driver may begin long after it was called.
                              long end = System.nanoTime() + Duration.ofMillis(600).toNanos();
                              Workload.await(() -> System.nanoTime() > end, "time to pass");
                            }
                          }));
      assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
      workload.assertGoesOn();
    }
  }

  @Test
  void restore_ontoATakenPid_namesWhoHasIt() {
    try (Workload workload = Workload.counter(directory)) {
      driver().dump(backupOf(workload.identity()), DumpListener.NONE);
      PidTakenException e =
          assertThrows(
              PidTakenException.class,
              () -> driver().restore(restoreOf(workload.pid()), RestoreListener.NONE));
      assertTrue(e.getMessage().contains("process " + workload.pid() + " (perl"), e.getMessage());
      workload.assertGoesOn();
    }
  }

  @Test
  void restore_ontoAPortThatClosedConnectionsHold_saysHowLong() {
    // Who closes first holds the port on; a listener without SO_REUSEADDR does not get it.
    String program =
        """
        use Socket;
        socket(my $l, AF_INET, SOCK_STREAM, 0); bind $l, pack_sockaddr_in(0, INADDR_LOOPBACK);
        listen $l, 1; socket(my $c, AF_INET, SOCK_STREAM, 0); connect $c, getsockname $l;
        accept my $a, $l; close $a; sysread $c, my $end, 1; close $c;
        open my $f, '>', $ARGV[0];
        sleep 1000 while 1;
        """;
    Path ready = directory.resolve("ready");
    try (Workload workload = Workload.of("perl", "-e", program, ready.toString())) {
      Workload.await(() -> Files.exists(ready), "a connection that is closed");
      driver().dump(dumpOf(workload.identity()), DumpListener.NONE);
      CriuException e =
          assertThrows(
              CriuException.class,
              () -> driver().restore(restoreOf(workload.pid()), RestoreListener.NONE));
      assertTrue(e.getMessage().contains("TIME_WAIT"), e.getMessage());
    }
  }

  @Test
  void restore_ontoAZombie_namesTheParentThatDoesNotReap() {
    try (Workload parent = Workload.of("perl", "-e", "fork; sleep 1000")) {
      Workload.await(() -> !ProcFs.descendants(parent.pid()).isEmpty(), "a child");
      int child = ProcFs.descendants(parent.pid()).get(0);
      driver().dump(dumpOf(ProcessIdentity.of(child).orElseThrow()), DumpListener.NONE);
      PidTakenException e =
          assertThrows(
              PidTakenException.class,
              () -> driver().restore(restoreOf(child), RestoreListener.NONE));
      assertTrue(e.getMessage().contains("a zombie (perl) that its parent"), e.getMessage());
      assertTrue(e.getMessage().contains("" + parent.pid()), e.getMessage());
    }
  }

  @Test
  void restore_ofNothing_saysSo() {
    assertReason(
        ImageException.class,
        ImageException.Reason.MISSING,
        () -> driver().restore(restoreOf(4_000_000), RestoreListener.NONE));
  }

  @Test
  void restore_withoutItsTree_saysSo() throws IOException {
    int pid = dumped();
    Files.delete(images.resolve("pstree.img"));
    assertReason(
        ImageException.class,
        ImageException.Reason.CORRUPT,
        () -> driver().restore(restoreOf(pid), RestoreListener.NONE));
  }

  private int dumped() {
    try (Workload workload = Workload.counter(directory)) {
      driver().dump(dumpOf(workload.identity()), DumpListener.NONE);
      return workload.pid();
    }
  }

  @Test
  void restore_vetoedBeforeItBegins_leavesNothing() {
    RuntimeException veto = new IllegalStateException("not today");
    assertRestoreVetoed(
        veto,
        new RestoreListener() {
          @Override
          public void preRestore() {
            throw veto;
          }
        });
  }

  @Test
  void restore_vetoedWhenItIsBuilt_leavesNothing_andCanBeRepeated() {
    RuntimeException veto = new IllegalStateException("no GPU free");
    assertRestoreVetoed(
        veto,
        new RestoreListener() {
          @Override
          public void postRestore(int pid) {
            assertTrue(ProcessIdentity.of(pid).isPresent());
            throw veto;
          }
        });
  }

  private void assertRestoreVetoed(RuntimeException veto, RestoreListener listener) {
    int pid = dumped();
    CriuException e =
        assertThrows(CriuException.class, () -> driver().restore(restoreOf(pid), listener));
    assertSame(veto, e.getCause());
    assertTrue(e.getMessage().contains("nothing of it is left"), e.getMessage());
    Workload.await(() -> ProcessIdentity.of(pid).isEmpty(), "init to reap what was half restored");
    Workload.end(driver().restore(restoreOf(pid), RestoreListener.NONE).process());
  }

  @Test
  void restore_whoseListenerFailsTooLateForAVeto_saysThatTheProcessRuns() {
    int pid = dumped();
    RuntimeException late = new IllegalStateException("cannot tell the scheduler");
    CriuException e =
        assertThrows(
            CriuException.class,
            () ->
                driver()
                    .restore(
                        restoreOf(pid),
                        new RestoreListener() {
                          @Override
                          public void postResume() {
                            throw late;
                          }
                        }));
    ProcessIdentity restored = ProcessIdentity.of(pid).orElseThrow();
    try {
      assertSame(late, e.getCause());
      assertTrue(e.getMessage().contains("the process runs"), e.getMessage());
      assertTrue(restored.isAlive());
    } finally {
      Workload.end(restored);
    }
  }

  @Test
  void dumps_ofDifferentProcesses_runAtTheSameTime() throws IOException {
    int count = 4;
    List<Workload> workloads = new ArrayList<>();
    ExecutorService threads = Executors.newFixedThreadPool(count);
    try {
      List<CompletableFuture<RestoreReport>> restored = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        Workload workload = Workload.counter(directory);
        workloads.add(workload);
        Path own = Files.createDirectory(directory.resolve("job" + i));
        Path ownWork = Files.createDirectory(directory.resolve("job-work" + i));
        restored.add(
            CompletableFuture.supplyAsync(
                () -> {
                  driver()
                      .dump(
                          new DumpRequest(workload.identity(), own, ownWork, dumpOptions().build()),
                          DumpListener.NONE);
                  return driver()
                      .restore(
                          new RestoreRequest(own, ownWork, workload.pid(), AS_SHELL_JOB),
                          RestoreListener.NONE);
                },
                threads));
      }
      for (int i = 0; i < count; i++) {
        RestoreReport report = restored.get(i).join();
        try {
          workloads.get(i).assertGoesOn();
        } finally {
          Workload.end(report.process());
        }
      }
    } finally {
      threads.shutdownNow();
      workloads.forEach(Workload::close);
    }
  }

  @Test
  void nothingLeaks_whateverHappens() {
    try (Workload workload = Workload.counter(directory)) {
      exercise(workload);
      long before = Descriptors.open(directory);
      for (int i = 0; i < 10; i++) {
        exercise(workload);
      }
      assertTrue(
          Descriptors.open(directory) <= before,
          () -> before + " became " + Descriptors.open(directory));
      assertEquals(List.of(), zombieChildren());
    }
  }

  private void exercise(Workload workload) {
    driver().version();
    assertThrows(
        CriuException.class,
        () ->
            driver()
                .dump(
                    dumpOf(workload.identity()),
                    new DumpListener() {
                      @Override
                      public void preDump() {
                        throw new IllegalStateException("veto");
                      }
                    }));
    assertReason(
        ImageException.class,
        ImageException.Reason.MISSING,
        () -> driver().restore(restoreOf(4_000_000), RestoreListener.NONE));
  }

  private static List<Integer> zombieChildren() {
    return ProcFs.descendants(ProcessHandle.current().pid()).stream()
        .filter(child -> ProcFs.stat(child).filter(s -> s.isDead()).isPresent())
        .toList();
  }
}
