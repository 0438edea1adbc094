package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.internal.linux.ChildProcess;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.RestoreListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Assumptions;

/** Section 0 of the facts: ten traps. */
final class TenTraps {

  private static final int EEXIST = 17;
  private static final int SOCK_STREAM = 1;
  private static final int SOCK_SEQPACKET = 5;

  private TenTraps() {}

  static List<Trap> all() {
    return List.of(
        new Trap("0.1 cr_errmsg is the first error, not the fatal one", TenTraps::firstError),
        new Trap("0.2 a failed restore names pid -1 or a dead one", TenTraps::pidMinusOne),
        new Trap(
            "0.3 hanging up aborts only at a stage that waits for an answer", TenTraps::hangUp),
        new Trap("0.4 truncated pages make a restore loop endlessly", TenTraps::spin),
        new Trap("0.5 it crashes without a reply", TenTraps::crash),
        new Trap("0.6 late refusals of a restore are ignored", TenTraps::lateRefusal),
        new Trap("0.7 refusing post-dump tells plugins of success", TenTraps::plugins),
        new Trap("0.8 what was dumped away stays a zombie", TenTraps::zombie),
        new Trap("0.9 SOCK_STREAM does not work", TenTraps::stream),
        new Trap("0.10 keep_open on DUMP, RESTORE or CHECK", TenTraps::keepOpen));
  }

  private static RawCriu.Said raw(criu_req_type type, criu_opts.Builder opts) {
    return RawCriu.ask(RawCriu.request(type, opts));
  }

  private static void firstError(TrapFixture fixture) {
    // As root with every capability there would be no first error that is harmless.
    Path poor =
        fixture.wrapped(
            "exec setpriv --bounding-set -sys_resource %s \"$@\"".formatted(RawCriu.program()));
    try (dev.gpuprocess.fixtures.Workload idle = dev.gpuprocess.fixtures.Workload.idle()) {
      String held = idle.ask("perf");
      Assumptions.assumeFalse(held.startsWith("error"), () -> "no perf events: " + held);
      criu_opts.Builder opts = RawCriu.dump(fixture.site("raw"), idle.pid());
      RawCriu.Said said = RawCriu.ask(poor, RawCriu.request(criu_req_type.DUMP, opts));
      assertTrue(said.message().contains("RLIMIT_NOFILE"), said::message);
      opts = RawCriu.dump(fixture.site("unprivileged"), idle.pid()).setUnprivileged(true);
      said = RawCriu.ask(poor, RawCriu.request(criu_req_type.DUMP, opts));
      assertTrue(said.message().contains("Can't dump file"), said::message);
      CriuException e =
          assertThrows(
              CriuException.class,
              () ->
                  fixture
                      .site("ours")
                      .with(new RpcCriuDriver(poor))
                      .dump(
                          ProcessIdentity.of(idle.pid()).orElseThrow(),
                          DumpDirectories.dump().build()));
      assertTrue(
          e.criu().orElseThrow().firstError().contains("Can't dump file"),
          e.criu().orElseThrow()::firstError);
      assertFalse(e.getMessage().contains("RLIMIT"), e.getMessage());
    }
  }

  /** The number stays taken as a session's, and nothing with it can be seen before CRIU tries. */
  private static void pidMinusOne(TrapFixture fixture) throws IOException {
    String program =
        """
        use POSIX (); POSIX::setsid();
        if (my $child = fork) { waitpid $child, 0; sleep 1000 while 1 }
        fork and exit;
        open my $f, '>', $ARGV[0]; print $f $$; close $f; sleep 1000 while 1;
        """;
    DumpDirectories site = fixture.site("site");
    try (Workload leader = fixture.perl(program)) {
      ProcessIdentity member = member(fixture);
      try {
        Workload.await(() -> ProcFs.descendants(leader.pid()).isEmpty(), "the member to be init's");
        site.dump(leader.identity(), DumpDirectories.dump().build());
        TrapFixture.awaitFree(leader.pid());
        RawCriu.Said said = raw(criu_req_type.RESTORE, RawCriu.restore(site));
        assertEquals(EEXIST, said.errno());
        assertEquals(-1, said.restored());
        PidTakenException e =
            assertThrows(
                PidTakenException.class,
                () -> site.restore(leader.pid(), RestoreOptions.ofDefaults()));
        assertTrue(e.getMessage().contains("process " + member.pid()), e.getMessage());
        assertTrue(member.isAlive());
      } finally {
        Workload.end(member);
      }
    }
  }

  private static ProcessIdentity member(TrapFixture fixture) throws IOException {
    Path file = fixture.directory().resolve("ready");
    Workload.await(() -> file.toFile().length() > 0, "a member of the session");
    return ProcessIdentity.of(Long.parseLong(Files.readString(file))).orElseThrow();
  }

  private static void hangUp(TrapFixture fixture) {
    try (Workload counter = fixture.counter()) {
      criu_opts.Builder opts = RawCriu.dump(fixture.site("asked"), counter.pid());
      opts.setLeaveRunning(false).setNotifyScripts(true);
      ExitStatus exit =
          RawCriu.hangUp(RawCriu.request(criu_req_type.DUMP, opts), "query-ext-files");
      assertEquals("exit 1", exit.toString());
      counter.assertGoesOn();

      Cancellation cancellation = new Cancellation();
      OperationCancelledException e =
          fixture.failedDump(
              OperationCancelledException.class,
              fixture.site("ours"),
              counter,
              DumpDirectories.dump().cancellation(cancellation).build(),
              new DumpListener() {
                @Override
                public List<External> queryExternalFiles() {
                  cancellation.cancel();
                  return List.of();
                }
              });
      assertTrue(e.getMessage().contains("was cancelled"), e.getMessage());
    }
    assertTrue(fixture.sentDump().getOpts().getNotifyScripts());
    try (Workload counter = fixture.counter()) {
      criu_opts.Builder opts = RawCriu.dump(fixture.site("not asked"), counter.pid());
      opts.setLeaveRunning(false);
      assertEquals(
          "exit 1", RawCriu.hangUp(RawCriu.request(criu_req_type.DUMP, opts), "").toString());
      // CRIU killed the process without reporting it.
      TrapFixture.awaitNothingLeft(counter.pid());
    }
  }

  private static void spin(TrapFixture fixture) throws IOException {
    DumpDirectories site = fixture.site("site");
    int pid;
    try (Workload counter = Workload.counter(fixture.directory(), 4)) {
      pid = counter.pid();
      site.dump(counter.identity(), DumpDirectories.dump().build());
    }
    for (Path pages : site.images("pages-")) {
      RestoreTraps.cut(pages);
    }
    RestoreOptions options =
        RestoreOptions.builder()
            .criu(c -> c.shellJob(true).logLevel(1))
            .deadline(Duration.ofSeconds(12))
            .build();
    OperationTimedOutException e =
        assertThrows(OperationTimedOutException.class, () -> site.restore(pid, options));
    assertTrue(e.getMessage().contains("nothing of it is left"), e.getMessage());
    TrapFixture.assertNothingLeft(pid);
    Path log = site.work().resolve("restore.log");
    long size = Files.size(log);
    TrapFixture.awaitFree(pid);
    assertEquals(size, Files.size(log));
  }

  private static void crash(TrapFixture fixture) {
    RawCriu.Said said = RawCriu.ask(criu_req.newBuilder().setType(criu_req_type.DUMP).build());
    assertTrue(said.reply().isEmpty());
    assertEquals("signal 11", said.exit().toString());
    criu_opts sent = fixture.sentDump().getOpts();
    assertTrue(sent.hasPid() && sent.getPid() > 1, sent::toString); // or the JVM would be dumped
  }

  private static void lateRefusal(TrapFixture fixture) {
    try (Workload counter = fixture.counter()) {
      for (String stage : List.of("pre-dump", "query-ext-files", "post-dump")) {
        criu_opts.Builder opts = RawCriu.dump(fixture.site(stage), counter.pid());
        assertFalse(refuse(criu_req_type.DUMP, opts.setLeaveRunning(false), stage).success());
        counter.assertGoesOn();
      }
    }
    for (String stage : List.of("pre-restore", "post-restore")) {
      DumpDirectories site = fixture.site(stage);
      int pid = RestoreTraps.dumped(fixture, site);
      assertFalse(refuseRestore(site, stage).success());
      TrapFixture.awaitNothingLeft(pid);
    }
    for (String stage : List.of("pre-resume", "post-resume")) {
      DumpDirectories site = fixture.site(stage);
      int pid = RestoreTraps.dumped(fixture, site);
      RawCriu.Said said = refuseRestore(site, stage);
      assertTrue(said.success(), stage);
      assertEquals(pid, said.restored());
      Workload.end(ProcessIdentity.of(pid).orElseThrow());
    }
    DumpDirectories site = fixture.site("ours");
    assertToldThatItRuns(site, RestoreTraps.dumped(fixture, site));
  }

  private static RawCriu.Said refuse(criu_req_type type, criu_opts.Builder opts, String stage) {
    return RawCriu.ask(
        RawCriu.program(),
        RawCriu.request(type, opts.setNotifyScripts(true)),
        asked -> !asked.equals(stage));
  }

  private static RawCriu.Said refuseRestore(DumpDirectories site, String stage) {
    return RawCriu.restoreOfEnded(
        RawCriu.restore(site).setNotifyScripts(true), asked -> !asked.equals(stage));
  }

  private static void assertToldThatItRuns(DumpDirectories site, int pid) {
    RuntimeException late = new IllegalStateException("too late");
    RestoreListener refuses =
        new RestoreListener() {
          @Override
          public void preResume() {
            throw late;
          }
        };
    CriuException e =
        assertThrows(
            CriuException.class,
            () -> site.restore(pid, DumpDirectories.shellJob().build(), refuses));
    assertSame(late, e.getCause());
    assertTrue(e.getMessage().contains("but the process runs"), e.getMessage());
    Workload.end(ProcessIdentity.of(pid).orElseThrow());
  }

  private static void plugins(TrapFixture fixture) throws IOException {
    Path plugins = fixture.directory().resolve("plugins");
    Path told = fixture.directory().resolve("told");
    CriuPlugin.make(plugins, told);
    Path config =
        Files.writeString(fixture.directory().resolve("config"), "libdir " + plugins + "\n");
    DumpDirectories named = fixture.site("named");
    int pid;
    try (Workload counter = fixture.counter()) {
      pid = counter.pid();
      criu_opts.Builder opts = RawCriu.dump(fixture.site("refused"), pid);
      opts.setConfigFile(config.toString()).setLeaveRunning(false);
      assertFalse(refuse(criu_req_type.DUMP, opts, "post-dump").success());
      assertTrue(Files.readString(told).endsWith("exit at stage 0 with 0\n"), "success");
      counter.assertGoesOn();

      opts = RawCriu.dump(named, pid).setConfigFile(config.toString());
      assertTrue(raw(criu_req_type.DUMP, opts).success(), () -> RawCriu.log(named));
      Files.delete(told);
      fixture
          .site("ours")
          .with(new RpcCriuDriver(fixture.wrapped("export CRIU_LIBS_DIR=" + plugins)))
          .dump(counter.identity(), DumpDirectories.backup().build());
      assertFalse(Files.exists(told), "ours is dumped without it, wherever it is installed");
    }
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.PLUGIN,
            () -> named.restore(pid, DumpDirectories.shellJob().build()));
    assertTrue(e.getMessage().contains("the " + CriuPlugin.NAME), e.getMessage());
    assertFalse(ProcessIdentity.of(pid).isPresent());
  }

  private static void zombie(TrapFixture fixture) {
    DumpDirectories site = fixture.site("site");
    String program = "$SIG{USR1} = sub { wait }; fork; $0 = 'child'; sleep 1000 while 1";
    try (Workload parent = Workload.of("perl", "-e", program)) {
      Workload.await(() -> !ProcFs.descendants(parent.pid()).isEmpty(), "a child");
      int child = ProcFs.descendants(parent.pid()).get(0);
      site.dump(ProcessIdentity.of(child).orElseThrow(), DumpDirectories.dump().build());
      assertTrue(ProcFs.stat(child).orElseThrow().isDead(), "a zombie");
      RawCriu.Said said = raw(criu_req_type.RESTORE, RawCriu.restore(site));
      assertEquals(EEXIST, said.errno());
      PidTakenException e =
          assertThrows(
              PidTakenException.class,
              () -> site.restore(child, DumpDirectories.shellJob().build()));
      assertTrue(e.getMessage().contains("has not reaped"), e.getMessage());

      Signal.send("USR1", parent.pid());
      Workload.await(() -> ProcessIdentity.of(child).isEmpty(), "the parent to reap it");
      Workload.end(site.restore(child, DumpDirectories.shellJob().build()).process());
    }
  }

  private static void stream(TrapFixture fixture) throws IOException {
    assertEquals("exit 255", askVersion(SOCK_STREAM).toString());
    assertEquals("exit 0", askVersion(SOCK_SEQPACKET).toString());

    String scenario = "use Socket; print unpack 'i', getsockopt $socket, SOL_SOCKET, SO_TYPE";
    RpcCriuDriver driver =
        new RpcCriuDriver(FakeCriu.create(fixture.directory().resolve("fake"), scenario));
    try (Workload counter = fixture.counter()) {
      CriuException e =
          assertThrows(
              CriuException.class,
              () ->
                  fixture
                      .site("ours")
                      .with(driver)
                      .dump(counter.identity(), DumpDirectories.dump().build()));
      assertEquals(Integer.toString(SOCK_SEQPACKET), e.criu().orElseThrow().stderr());
    }
  }

  private static ExitStatus askVersion(int socketType) throws IOException {
    int[] pair = {-1, -1};
    Libc.check(
        Libc.functions().socketpair(Libc.AF_UNIX, socketType | Libc.O_CLOEXEC, 0, pair),
        "socketpair");
    int output = Libc.open(Path.of("/dev/null"), Libc.O_RDWR);
    try {
      ChildProcess child =
          ChildProcess.start(
              RawCriu.program(),
              List.of("swrk", Integer.toString(ChildProcess.SOCKET)),
              ChildStart.NOWHERE,
              output,
              List.of(pair[1]),
              null);
      byte[] request = criu_req.newBuilder().setType(criu_req_type.VERSION).build().toByteArray();
      Libc.check(
          Libc.functions().send(pair[0], request, request.length, Libc.MSG_NOSIGNAL), "send");
      assertTrue(Polling.until(DumpDirectories.PATIENCE, () -> child.reap().isPresent()));
      return child.reap().orElseThrow();
    } finally {
      List.of(pair[0], pair[1], output).forEach(Libc::close);
    }
  }

  private static void keepOpen(TrapFixture fixture) {
    DumpDirectories site = fixture.site("raw");
    try (Workload counter = fixture.counter()) {
      for (criu_req_type type :
          List.of(criu_req_type.DUMP, criu_req_type.RESTORE, criu_req_type.CHECK)) {
        criu_req request =
            criu_req
                .newBuilder()
                .setType(type)
                .setOpts(RawCriu.dump(site, counter.pid()))
                .setKeepOpen(true)
                .build();
        RawCriu.Said said = RawCriu.ask(request);
        assertTrue(said.reply().isEmpty(), type::name);
        assertEquals("exit 255", said.exit().toString(), type::name);
      }
      counter.assertGoesOn();
    }
    assertFalse(fixture.sentDump().hasKeepOpen());
    assertFalse(fixture.sentBy(recorded -> recorded.driver().check()).hasKeepOpen());
  }
}
