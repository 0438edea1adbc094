package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.internal.log.CriuLog;
import dev.gpuprocess.criu.internal.process.ImageDirectories;
import dev.gpuprocess.criu.proto.Rpc.criu_network_lock_method;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Assumptions;

/** The dumps of section 4.2 of the facts. */
final class DumpTraps {

  private static final int ESRCH = 3;
  private static final int EBADRQC = 56;

  private static final String CONNECTED =
      """
      use Socket;
      socket(my $l, AF_INET, SOCK_STREAM, 0); bind $l, pack_sockaddr_in(0, INADDR_LOOPBACK);
      listen $l, 1; socket(my $c, AF_INET, SOCK_STREAM, 0); connect $c, getsockname $l;
      accept my $a, $l; close $l; open my $f, '>', $ARGV[0]; close $f;
      sleep 1000 while 1;
      """;

  private DumpTraps() {}

  static List<Trap> all() {
    return List.of(
        new Trap("4.2 pid absent", DumpTraps::pidAbsent),
        new Trap("4.2 images dir missing", DumpTraps::imagesDirMissing),
        new Trap("4.2 images dir not given", DumpTraps::imagesDirNotGiven),
        new Trap("4.2 slash in log_file", DumpTraps::slashInLogFile),
        new Trap("4.2 images dir a file", DumpTraps::imagesDirIsAFile),
        new Trap("4.2 images dir on a read-only fs", DumpTraps::readOnlyFs),
        new Trap("4.2 ro images with rw work dir", DumpTraps::readOnlyImagesOnly),
        new Trap("4.2 fs full", DumpTraps::fsFull),
        new Trap(
            "4.2 perf_event fd",
            fixture ->
                heldDescriptor(
                    fixture, "perf", "anon_inode:[perf_event]", "Can't dump file 4 of that type")),
        new Trap(
            "4.2 io_uring fd",
            fixture ->
                heldDescriptor(fixture, "io_uring", "anon_inode:[io_uring]", "send_fds failed")),
        new Trap("4.2 file lock without option", DumpTraps::fileLock),
        new Trap("4.2 connected TCP without option", DumpTraps::connectedTcp),
        new Trap("4.2 unlinked 3 MB file", DumpTraps::unlinkedFile),
        new Trap("4.2 tcp_established, no iptables binary", DumpTraps::noIptables),
        new Trap("4.2 socketpair to outside", DumpTraps::socketpairToOutside),
        new Trap("4.2 broken .so in the plugin dir", DumpTraps::brokenPlugin),
        new Trap("4.2 non-root, no capability", DumpTraps::noCapability));
  }

  private static RawCriu.Said raw(criu_opts.Builder opts) {
    return RawCriu.ask(RawCriu.request(criu_req_type.DUMP, opts));
  }

  private static void pidAbsent(TrapFixture fixture) {
    DumpDirectories site = fixture.site("raw");
    try (Workload counter = fixture.counter()) {
      NoSuchProcessException e =
          assertThrows(
              NoSuchProcessException.class,
              () ->
                  fixture
                      .site("ours")
                      .dump(
                          counter.identity(),
                          DumpDirectories.dump().build(),
                          new DumpListener() {
                            @Override
                            public void preDump() {
                              counter.close(); // so late that only CRIU can notice
                            }
                          }));
      assertTrue(e.getMessage().contains("no process " + counter.pid()), e.getMessage());
      RawCriu.Said said = raw(RawCriu.dump(site, counter.pid()));
      assertFalse(said.success());
      assertEquals(ESRCH, said.errno());
      assertEquals(List.of(), CriuLog.errorsIn(RawCriu.log(site)), "it does not say why");
    }
  }

  private static void imagesDirMissing(TrapFixture fixture) throws IOException {
    DumpDirectories site = fixture.site("site");
    Files.delete(site.images());
    try (Workload counter = fixture.counter()) {
      assertNothingButPrinted(raw(RawCriu.dump(site, counter.pid())), "Can't open dir");
      fixture.refusedDump(ImageException.Reason.DIRECTORY, site, counter);
    }
  }

  /** CRIU returns only EBADRQC; its reason is on stderr. */
  private static void assertNothingButPrinted(RawCriu.Said said, String reason) {
    assertFalse(said.success());
    assertEquals(EBADRQC, said.errno());
    assertEquals("", said.message());
    assertTrue(said.printed().contains(reason), said::printed);
  }

  private static void imagesDirNotGiven(TrapFixture fixture) {
    try (Workload counter = fixture.counter()) {
      criu_opts.Builder opts = RawCriu.dump(fixture.site("raw"), counter.pid());
      assertNothingButPrinted(raw(opts.clearImagesDir()), "Neither images_dir");
      counter.assertGoesOn();
    }
    criu_opts sent = fixture.sentDump().getOpts();
    assertTrue(sent.getImagesDirFd() >= 0 && sent.getWorkDirFd() >= 0, sent::toString);
  }

  private static void slashInLogFile(TrapFixture fixture) {
    try (Workload counter = fixture.counter()) {
      criu_opts.Builder opts = RawCriu.dump(fixture.site("raw"), counter.pid());
      assertNothingButPrinted(raw(opts.setLogFile("logs/dump.log")), "No subdirs");
      counter.assertGoesOn();
    }
    assertEquals("dump.log", fixture.sentDump().getOpts().getLogFile());
  }

  private static void imagesDirIsAFile(TrapFixture fixture) throws IOException {
    DumpDirectories site = fixture.site("site");
    Files.delete(site.images());
    Files.createFile(site.images());
    try (Workload counter = fixture.counter()) {
      assertNothingButPrinted(raw(RawCriu.dump(site, counter.pid())), "Can't chdir");
      fixture.refusedDump(ImageException.Reason.DIRECTORY, site, counter);
    }
  }

  private static void readOnlyFs(TrapFixture fixture) {
    DumpDirectories site = fixture.site("site");
    try (TmpFs disk = TmpFs.mount(site.images(), "ro");
        Workload counter = fixture.counter()) {
      assertNothingButPrinted(raw(RawCriu.dump(site, counter.pid())), "Can't create log file");
      fixture.refusedDump(ImageException.Reason.DIRECTORY, site.at(disk.point()), counter);
    }
  }

  private static void readOnlyImagesOnly(TrapFixture fixture) throws IOException {
    DumpDirectories site = fixture.site("site");
    try (TmpFs disk = TmpFs.mount(site.images(), "size=1m");
        Workload counter = fixture.counter()) {
      CriuException e =
          fixture.failedDump(
              CriuException.class,
              site,
              counter,
              DumpDirectories.dump().build(),
              new DumpListener() {
                @Override
                public void preDump() {
                  ProgramRun.of("mount", "-o", "remount,ro", disk.point().toString()).succeed();
                }
              });
      assertTrue(
          e.criu().orElseThrow().firstError().contains(".img"), e.criu().orElseThrow()::firstError);
      assertTrue(
          e.criu().orElseThrow().firstError().contains("Read-only file system"),
          e.criu().orElseThrow()::firstError);
      try (ImageDirectories open = ImageDirectories.open(site.images(), site.work())) {
        RawCriu.Said said = raw(RawCriu.dump(site, counter.pid()).setWorkDirFd(open.work()));
        assertFalse(said.success());
        assertEquals(0, said.errno());
      }
      counter.assertGoesOn();
    }
  }

  private static void fsFull(TrapFixture fixture) {
    DumpDirectories site = fixture.site("site");
    try (TmpFs disk = TmpFs.mount(site.images(), "size=1m");
        Workload counter = Workload.counter(fixture.directory(), 8)) {
      fixture.failedDump(
          ImageException.class,
          ImageException.Reason.DISK_FULL,
          site.at(disk.point()),
          counter,
          DumpDirectories.dump().build(),
          DumpListener.NONE);
      RawCriu.Said said = raw(RawCriu.dump(site, counter.pid()));
      assertFalse(said.success());
      assertEquals(0, said.errno());
      counter.assertGoesOn();
    }
  }

  private static UnsupportedResource unsupported(
      DumpDirectories site, dev.gpuprocess.fixtures.Workload idle, DumpOptions options) {
    ProcessIdentity process = ProcessIdentity.of(idle.pid()).orElseThrow();
    CriuException e =
        assertReason(
            CriuException.class,
            CriuException.Reason.UNSUPPORTED_RESOURCE,
            () -> site.dump(process, options));
    assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
    UnsupportedResource resource = e.resources().get(0);
    assertTrue(e.getMessage().contains(resource.name()), e.getMessage());
    if (resource.option() != null) {
      assertTrue(e.getMessage().contains("use " + resource.option()), e.getMessage());
    }
    assertEquals(idle.pid(), resource.pid());
    assertTrue(Long.parseLong(idle.ask("?")) > 0, "it goes on");
    return resource;
  }

  private static String hold(
      TrapFixture fixture, dev.gpuprocess.fixtures.Workload idle, String what) {
    String held = idle.ask(what.replace("FILE", fixture.directory().resolve("file").toString()));
    Assumptions.assumeFalse(held.startsWith("error"), () -> "no " + what + ": " + held);
    return held;
  }

  /** CRIU fails without an errno, and its log has this. */
  private static void assertLogged(DumpDirectories site, RawCriu.Said said, String reason) {
    assertFalse(said.success());
    assertEquals(0, said.errno());
    assertTrue(RawCriu.log(site).contains(reason), () -> RawCriu.log(site));
  }

  private static void heldDescriptor(
      TrapFixture fixture, String what, String name, String criuSays) {
    DumpDirectories raw = fixture.site("raw");
    try (dev.gpuprocess.fixtures.Workload idle = dev.gpuprocess.fixtures.Workload.idle()) {
      String held = hold(fixture, idle, what);
      assertLogged(raw, raw(RawCriu.dump(raw, idle.pid())), criuSays);
      UnsupportedResource resource =
          unsupported(fixture.site("ours"), idle, DumpDirectories.dump().build());
      assertEquals("descriptor " + held, resource.handle());
      assertEquals(name, resource.name());
      assertNull(resource.option());
    }
  }

  private static void fileLock(TrapFixture fixture) {
    DumpDirectories raw = fixture.site("raw");
    try (dev.gpuprocess.fixtures.Workload idle = dev.gpuprocess.fixtures.Workload.idle()) {
      hold(fixture, idle, "lock FILE");
      assertLogged(raw, raw(RawCriu.dump(raw, idle.pid())), "--file-locks");
      UnsupportedResource lock =
          unsupported(fixture.site("ours"), idle, DumpDirectories.dump().build());
      assertEquals(fixture.directory().resolve("file").toString(), lock.name());
      assertEquals("CriuOptions.set(\"file-locks\")", lock.option());
    }
  }

  private static void connectedTcp(TrapFixture fixture) {
    DumpDirectories raw = fixture.site("raw");
    try (dev.gpuprocess.fixtures.Workload idle = dev.gpuprocess.fixtures.Workload.idle()) {
      hold(fixture, idle, "tcp");
      assertLogged(raw, raw(RawCriu.dump(raw, idle.pid())), "--tcp-established");
      UnsupportedResource tcp =
          unsupported(fixture.site("ours"), idle, DumpDirectories.dump().build());
      assertTrue(tcp.name().matches("tcp 127.0.0.1:\\d+ -> 127.0.0.1:\\d+"), tcp::name);
      assertEquals("CriuOptions.set(\"tcp-established\")", tcp.option());
    }
  }

  private static void unlinkedFile(TrapFixture fixture) {
    DumpDirectories raw = fixture.site("raw");
    DumpOptions small = DumpDirectories.backup().criu(c -> c.ghostLimit(1 << 20)).build();
    try (dev.gpuprocess.fixtures.Workload idle = dev.gpuprocess.fixtures.Workload.idle()) {
      hold(fixture, idle, "deleted FILE 3000000");
      assertLogged(raw, raw(RawCriu.dump(raw, idle.pid())), "Can't dump ghost file");
      UnsupportedResource file = unsupported(fixture.site("ours"), idle, small);
      assertEquals(fixture.directory().resolve("file").toString(), file.name());
      String option = String.valueOf(file.option());
      assertTrue(option.matches("CriuOptions\\.set\\(\"ghost-limit=\\d+\"\\)"), option);
      long enough = Long.parseLong(option.replaceAll("\\D", ""));
      fixture
          .site("cured")
          .dump(
              ProcessIdentity.of(idle.pid()).orElseThrow(),
              DumpDirectories.backup().criu(c -> c.ghostLimit(enough)).build());
    }
  }

  /** CRIU may be a script that needs a few programs, but no iptables. */
  private static Path withoutIptables(TrapFixture fixture) throws IOException {
    Path programs = Files.createDirectory(fixture.directory().resolve("programs"));
    for (String name : Set.of("dirname", "readlink")) {
      FakeCriu.write(
          programs.resolve(name),
          "#!/bin/sh\nexec %s \"$@\"\n"
              .formatted(ProgramRun.of("sh", "-c", "command -v " + name).succeed()));
    }
    return fixture.wrapped("PATH=" + programs);
  }

  private static void noIptables(TrapFixture fixture) throws IOException {
    Path program = withoutIptables(fixture);
    DumpDirectories raw = fixture.site("raw");
    try (Workload connected = fixture.perl(CONNECTED)) {
      criu_opts.Builder opts =
          RawCriu.dump(raw, connected.pid())
              .setTcpEstablished(true)
              .setNetworkLock(criu_network_lock_method.IPTABLES);
      RawCriu.Said said = RawCriu.ask(program, RawCriu.request(criu_req_type.DUMP, opts));
      assertLogged(raw, said, "ptables");
      CriuException e =
          assertThrows(
              CriuException.class,
              () -> backupConnected(fixture, program, connected, NetworkLock.IPTABLES));
      assertTrue(
          e.getMessage().contains("CriuOptions.set(\"network-lock=nftables\")"), e.getMessage());
      assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
      backupConnected(fixture, program, connected, NetworkLock.NFTABLES);
      backupConnected(fixture, program, connected, NetworkLock.SKIP);
    }
  }

  private static void backupConnected(
      TrapFixture fixture, Path program, Workload connected, NetworkLock lock) {
    fixture
        .site("with " + lock)
        .with(new RpcCriuDriver(program))
        .dump(
            connected.identity(),
            DumpDirectories.backup().criu(c -> c.tcpEstablished(true).networkLock(lock)).build());
  }

  private static void socketpairToOutside(TrapFixture fixture) {
    // Ready when each of the two has its own half alone.
    String program =
        """
        use Socket;
        socketpair my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC;
        if (my $child = fork) { close $b; syswrite $a, '!'; sleep 1000 while 1 }
        close $a; sysread $b, my $alone, 1; open my $f, '>', $ARGV[0]; close $f;
        sleep 1000 while getppid != 1;
        """;
    DumpDirectories raw = fixture.site("raw");
    try (Workload parent = fixture.perl(program)) {
      Workload.await(() -> !ProcFs.descendants(parent.pid()).isEmpty(), "a child");
      ProcessIdentity half =
          ProcessIdentity.of(ProcFs.descendants(parent.pid()).get(0)).orElseThrow();
      try {
        assertLogged(raw, raw(RawCriu.dump(raw, half.pid())), "External socket is used");
        DumpDirectories alone = fixture.site("raw alone");
        assertFalse(raw(RawCriu.dump(alone, half.pid()).setExtUnixSk(true)).success());

        CriuException e =
            assertReason(
                CriuException.class,
                CriuException.Reason.UNSUPPORTED_RESOURCE,
                () -> fixture.site("ours").dump(half, DumpDirectories.backup().build()));
        assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
        assertTrue(e.resources().get(0).name().startsWith("unix"), e.getMessage());
        External socket = External.unixSocket(socketOf(half));
        fixture
            .site("cured")
            .dump(half, DumpDirectories.backup().criu(c -> c.external(socket)).build());
      } finally {
        Workload.end(half);
      }
    }
  }

  private static long socketOf(ProcessIdentity process) {
    return ProcFs.openFiles(process.pid()).stream()
        .filter(file -> file.target().startsWith("socket:["))
        .map(file -> Long.parseLong(file.target().replaceAll("\\D", "")))
        .findFirst()
        .orElseThrow();
  }

  private static void brokenPlugin(TrapFixture fixture) throws IOException {
    Path plugins = Files.createDirectory(fixture.directory().resolve("plugins"));
    Path broken = Files.writeString(plugins.resolve("broken.so"), "not a library");
    DumpDirectories raw = fixture.site("raw");
    Path config =
        Files.writeString(fixture.directory().resolve("config"), "libdir " + plugins + "\n");
    try (Workload counter = fixture.counter()) {
      criu_opts.Builder opts = RawCriu.dump(raw, counter.pid()).setConfigFile(config.toString());
      assertLogged(raw, raw(opts), "Unable to load " + broken);
      counter.assertGoesOn();
      fixture
          .site("ours")
          .with(new RpcCriuDriver(fixture.wrapped("export CRIU_LIBS_DIR=" + plugins)))
          .dump(counter.identity(), DumpDirectories.backup().build());
    }
  }

  private static void noCapability(TrapFixture fixture) {
    // It keeps the one by which it reads /proc of this JVM, which has more rights.
    Path program =
        fixture.wrapped(
            "exec setpriv --bounding-set -all,+sys_ptrace %s \"$@\"".formatted(RawCriu.program()));
    DumpDirectories raw = fixture.site("raw");
    try (Workload counter = fixture.counter()) {
      RawCriu.Said said =
          RawCriu.ask(
              program, RawCriu.request(criu_req_type.DUMP, RawCriu.dump(raw, counter.pid())));
      assertFalse(said.success());
      assertEquals(EBADRQC, said.errno());
      assertEquals("", said.message());
      CriuException e =
          fixture.failedDump(
              CriuException.class,
              CriuException.Reason.MISSING_CAPABILITY,
              fixture.site("ours").with(new RpcCriuDriver(program)),
              counter,
              DumpDirectories.dump().build(),
              DumpListener.NONE);
      assertEquals(
          Set.of("CAP_SYS_ADMIN", "CAP_CHECKPOINT_RESTORE"), e.capabilities(), e.getMessage());
    }
  }
}
