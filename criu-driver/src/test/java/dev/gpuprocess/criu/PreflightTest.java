package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Preflight tells what the real CRIU then does: each problem it finds is one that CRIU fails at,
 * and with the option it names CRIU succeeds.
 */
class PreflightTest {

  @TempDir Path directory;
  private RpcCriuDriver criu;
  private int dumps;

  @BeforeEach
  void find() {
    RealCriu.assume();
    criu = new RpcCriuDriver();
  }

  private static DumpOptions.Builder backup() {
    return DumpOptions.builder().leaveRunning(true).deadline(Duration.ofSeconds(30));
  }

  private static ProcessIdentity identity(Workload workload) {
    return ProcessIdentity.of(workload.pid()).orElseThrow();
  }

  private List<Finding> preflight(Workload workload, DumpOptions options) {
    return criu.preflight(identity(workload), options).stream()
        .filter(finding -> finding.severity() != Severity.OK)
        .toList();
  }

  private void dump(Workload workload, DumpOptions options) {
    try {
      Path place = Files.createDirectory(directory.resolve("dump" + dumps++));
      Path images = Files.createDirectory(place.resolve("images"));
      Path work = Files.createDirectory(place.resolve("work"));
      criu.dump(new DumpRequest(identity(workload), images, work, options), DumpListener.NONE);
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private String hold(Workload workload, String what) {
    String held = workload.ask(what.replace("FILE", directory.resolve("file").toString()));
    assertFalse(held.startsWith("error"), () -> what + ": " + held);
    return held;
  }

  /** Expects one problem, and that CRIU fails; returns the resource. */
  private UnsupportedResource problem(Workload workload, DumpOptions options, String criuSays) {
    List<Finding> findings = preflight(workload, options);
    assertEquals(1, findings.size(), findings::toString);
    assertTrue(findings.get(0).isProblem(), findings::toString);
    CriuException e = assertThrows(CriuException.class, () -> dump(workload, options));
    String errors = String.join("\n", e.criu().orElseThrow().errors());
    assertTrue(errors.contains(criuSays), errors);
    UnsupportedResource resource = Objects.requireNonNull(findings.get(0).resource());
    assertEquals(workload.pid(), resource.pid());
    return resource;
  }

  private void assertCured(Workload workload, DumpOptions options) {
    assertEquals(List.of(), preflight(workload, options));
    assertDoesNotThrow(() -> dump(workload, options));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "nothing",
        "open /dev/null",
        "open /dev/zero",
        "open /dev/ptmx",
        "map /dev/zero",
        "map /etc/passwd",
        "sparse FILE 200000000",
        "deleted FILE 1000000",
        "tcp-listen",
        "unix-pair",
        "unix-bind FILE",
        "eventfd",
        "epoll",
        "timerfd",
        "signalfd",
        "inotify",
        "memfd",
        "pidfd"
      })
  void hasNoObjectionToWhatCriuDumps(String what) {
    try (Workload idle = Workload.idle()) {
      hold(idle, what);
      assertCured(idle, backup().build());
    }
  }

  @ParameterizedTest
  @CsvSource({
    "open /dev/fuse,    /dev/fuse,                   Can't dump file 4 of that type",
    "open /dev/loop0,   /dev/loop0,                  Can't dump file 4 of that type",
    "perf,              anon_inode:[perf_event],     Can't dump file 4 of that type",
    "userfaultfd,       anon_inode:[userfaultfd],    Can't dump file 4 of that type",
    "io_uring,          anon_inode:[io_uring],       send_fds failed",
  })
  void refusesDescriptorsThatNoOptionAllows(String what, String name, String criuSays) {
    try (Workload idle = Workload.idle()) {
      String held = hold(idle, what);
      UnsupportedResource resource = problem(idle, backup().build(), criuSays);
      assertEquals("descriptor " + held, resource.handle());
      assertTrue(resource.name().startsWith(name), resource::toString);
      assertNull(resource.option());
    }
  }

  @Test
  void namesTheVariableThatKeepsProgramsFromMultipathTcp() {
    try (Workload idle = Workload.idle()) {
      String held = idle.ask("mptcp");
      assumeFalse(held.startsWith("error"), () -> "this kernel has no MPTCP: " + held);
      UnsupportedResource socket = problem(idle, backup().build(), "Unsupported proto 262");
      assertEquals("descriptor " + held, socket.handle());
      String cure = preflight(idle, backup().build()).get(0).cure();
      assertTrue(cure.contains("GODEBUG=multipathtcp=0"), cure);
    }
  }

  @Test
  void namesTheVariablesThatKeepProgramsFromIoUring() {
    try (Workload idle = Workload.idle()) {
      hold(idle, "io_uring");
      List<Finding> findings = preflight(idle, backup().build());
      assertEquals(1, findings.size(), findings::toString);
      assertTrue(findings.get(0).cure().contains("UV_USE_IO_URING=0"), findings::toString);
      assertTrue(findings.get(0).cure().contains("USE_LIBUV=0"), findings::toString);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "map /dev/loop0,  /dev/loop0,               Can't handle non-regular mapping",
    "sysv,            /SYSV00000000 (deleted),  SysVIPC shmem map",
    "perf-map,        anon_inode:[perf_event],  mapfile link",
  })
  void refusesMappingsThatNoOptionAllows(String what, String name, String criuSays) {
    try (Workload idle = Workload.idle()) {
      String held = hold(idle, what);
      UnsupportedResource resource = problem(idle, backup().build(), criuSays);
      assertTrue(resource.handle().startsWith("mapping " + held + "-"), resource::toString);
      assertEquals(name, resource.name());
      assertNull(resource.option());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lock FILE", "flock FILE", "lease FILE"})
  void namesTheOptionForLocks(String what) {
    try (Workload idle = Workload.idle()) {
      String held = hold(idle, what);
      UnsupportedResource lock = problem(idle, backup().build(), "file locks");
      assertEquals("descriptor " + held, lock.handle());
      assertEquals(directory.resolve("file").toString(), lock.name());
      assertEquals("CriuOptions.set(\"file-locks\")", lock.option());
      assertCured(idle, backup().criu(c -> c.fileLocks(true)).build());
    }
  }

  @Test
  void namesTheOptionForConnections() {
    try (Workload idle = Workload.idle()) {
      hold(idle, "tcp");
      List<Finding> ends = preflight(idle, backup().build());
      assertEquals(2, ends.size(), ends::toString);
      UnsupportedResource client = Objects.requireNonNull(ends.get(0).resource());
      assertTrue(client.name().matches("tcp 127.0.0.1:\\d+ -> 127.0.0.1:\\d+"), client.name());
      assertEquals("CriuOptions.set(\"tcp-established\")", client.option());
      CriuException e = assertThrows(CriuException.class, () -> dump(idle, backup().build()));
      assertTrue(e.criu().orElseThrow().firstError().contains("Connected TCP"), e::getMessage);
      assertCured(idle, backup().criu(c -> c.tcpEstablished(true)).build());
    }
  }

  @Test
  void namesTheOptionForConnectionsThatNobodyAccepted() {
    try (Workload idle = Workload.idle()) {
      String held = hold(idle, "tcp-pending");
      // The other end is a connection of this tree too.
      UnsupportedResource listener =
          problem(idle, backup().criu(c -> c.tcpEstablished(true)).build(), "In-flight connection");
      assertEquals("descriptor " + held, listener.handle());
      assertTrue(listener.name().startsWith("tcp listener 127.0.0.1:"), listener::toString);
      assertEquals("CriuOptions.set(\"skip-in-flight\")", listener.option());
      assertCured(idle, backup().criu(c -> c.tcpEstablished(true).tcpSkipInFlight(true)).build());
    }
  }

  @Test
  void namesTheLimitThatIsLargeEnough() {
    try (Workload idle = Workload.idle()) {
      String held = hold(idle, "deleted FILE 3000000");
      DumpOptions tight = backup().criu(c -> c.ghostLimit(3_000_000)).build();
      UnsupportedResource file = problem(idle, tight, "Can't dump ghost file");
      assertEquals("descriptor " + held, file.handle());
      assertEquals(directory.resolve("file").toString(), file.name());
      String option = Objects.requireNonNull(file.option());
      assertTrue(option.matches("CriuOptions\\.set\\(\"ghost-limit=\\d+\"\\)"), option);
      assertCured(
          idle,
          backup().criu(c -> c.ghostLimit(Long.parseLong(option.replaceAll("\\D", "")))).build());
    }
  }

  @Test
  void findsRemovedFilesThatAreOnlyMapped() {
    try (Workload idle = Workload.idle()) {
      String held = hold(idle, "deleted FILE 3000000");
      hold(idle, "map /proc/self/fd/" + held);
      List<Finding> findings = preflight(idle, backup().criu(c -> c.ghostLimit(1 << 20)).build());
      assertEquals(
          List.of("descriptor", "mapping"),
          findings.stream()
              .map(f -> Objects.requireNonNull(f.resource()).handle().split(" ")[0])
              .toList());
      assertCured(idle, backup().criu(c -> c.ghostLimit(4 << 20)).build());
    }
  }

  @Test
  void namesTheOptionForFilesThatLostTheirName() {
    try (Workload idle = Workload.idle()) {
      String held = hold(idle, "renamed FILE");
      UnsupportedResource file = problem(idle, backup().build(), "Can't create link remap");
      assertEquals("descriptor " + held, file.handle());
      assertEquals("CriuOptions.set(\"link-remap\")", file.option());
      assertCured(idle, backup().criu(c -> c.linkRemap(true)).build());
    }
  }

  @Test
  @OutsideUse("B5")
  void namesTheOptionForDatagramsToOthers() {
    try (Workload outside = Workload.idle();
        Workload idle = Workload.idle()) {
      hold(outside, "unix-bind FILE");
      hold(idle, "unix-send FILE");
      UnsupportedResource socket = problem(idle, backup().build(), "External socket");
      assertEquals("CriuOptions.set(\"ext-unix-sk\")", socket.option());
      String found = preflight(idle, backup().build()).get(0).what();
      assertTrue(found.contains("is connected to process %d ".formatted(outside.pid())), found);
      assertCured(idle, backup().criu(c -> c.externalUnixSockets(true)).build());
    }
  }

  @Test
  @OutsideUse("B5")
  void namesTheOptionForStreamsToOthers() throws IOException {
    Path name = directory.resolve("socket");
    try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        Workload idle = Workload.idle()) {
      server.bind(UnixDomainSocketAddress.of(name));
      String held = hold(idle, "unix-to " + name);
      External socket = External.unixSocket(inode(idle, held));
      String option = "CriuOptions.set(\"external=unix[%d]\")".formatted(inode(idle, held));
      // Not accepted yet: CRIU would dump it, and could not restore it.
      for (DumpOptions options :
          List.of(backup().build(), backup().criu(c -> c.external(socket)).build())) {
        List<Finding> waiting = preflight(idle, options);
        assertEquals(1, waiting.size(), waiting::toString);
        assertNull(Objects.requireNonNull(waiting.get(0).resource()).option());
        assertTrue(waiting.get(0).cure().contains("has accepted it"), waiting::toString);
      }
      try (SocketChannel accepted = server.accept()) {
        assertTrue(accepted.isConnected());
        assertEquals(option, problem(idle, backup().build(), "External socket").option());
        assertCured(idle, backup().criu(c -> c.external(socket)).build());
      }
    }
  }

  private static long inode(Workload workload, String descriptor) throws IOException {
    Path link = Path.of("/proc", Long.toString(workload.pid()), "fd", descriptor);
    return Long.parseLong(Files.readSymbolicLink(link).toString().replaceAll("\\D", ""));
  }

  /** The inodes of a pair are not adjacent when another process creates sockets. */
  @Test
  @OutsideUse("B5")
  void hasNoObjectionToAPairOnABusyMachine() {
    String program =
        """
        use Socket;
        my @kept;
        for (1 .. 20) {
          socketpair(my $one, my $other, AF_UNIX, SOCK_STREAM, 0) or die;
          push @kept, $one, $other;
        }
        socket(my $server, AF_UNIX, SOCK_STREAM, 0) or die;
        bind($server, pack_sockaddr_un($ARGV[0])) or die;
        listen($server, 5) or die;
        socket(my $client, AF_UNIX, SOCK_STREAM, 0) or die;
        connect($client, pack_sockaddr_un($ARGV[0])) or die;
        for (1 .. 20) { socket(my $between, AF_UNIX, SOCK_STREAM, 0) or die; push @kept, $between; }
        accept(my $accepted, $server) or die;
        socket(my $pending, AF_UNIX, SOCK_STREAM, 0) or die;
        connect($pending, pack_sockaddr_un($ARGV[0])) or die;
        open my $ready, '>', "$ARGV[0].ready" or die;
        sleep 1000 while 1;
        """;
    Path name = directory.resolve("socket");
    try (dev.gpuprocess.contract.Workload perl =
        dev.gpuprocess.contract.Workload.of("perl", "-e", program, name.toString())) {
      dev.gpuprocess.contract.Workload.await(
          () -> Files.exists(directory.resolve("socket.ready")), "the sockets");
      assertEquals(
          List.of(),
          criu.preflight(perl.identity(), backup().build()).stream()
              .filter(finding -> finding.severity() != Severity.OK)
              .toList());
    }
  }

  /** Any user of the machine can create such names. */
  @Test
  @OutsideUse("A18")
  void namesOfStrangersAreNoObstacle() throws IOException {
    String program =
        """
        use Socket;
        my @kept;
        for my $name ("\\0evil\\nname\\n", "\\0\\n\\n 1 2 3", "\\0\\r\\e]0;x\\a") {
          socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or die;
          bind($socket, pack('S a*', AF_UNIX, $name . $$)) or die;
          push @kept, $socket;
        }
        open my $ready, '>', $ARGV[0] or die;
        sleep 1000 while 1;
        """;
    Path ready = directory.resolve("ready");
    Path file = Files.write(directory.resolve("a\rb \u001b c\nd"), new byte[8192]);
    Files.createSymbolicLink(directory.resolve("file"), file);
    try (dev.gpuprocess.contract.Workload stranger =
            dev.gpuprocess.contract.Workload.of("perl", "-e", program, ready.toString());
        Workload idle = Workload.idle()) {
      dev.gpuprocess.contract.Workload.await(() -> Files.exists(ready), "the stranger's sockets");
      assertTrue(stranger.pid() > 1);
      hold(idle, "map FILE");
      hold(idle, "open FILE");
      hold(idle, "unix-pair");
      assertCured(idle, backup().build());
    }
  }

  @Test
  void namesTheOptionForTerminalsOfOthers() {
    try (Workload outside = Workload.idle();
        Workload idle = Workload.idle()) {
      hold(idle, "open /dev/pts/" + newTerminal(outside));
      assertEquals(List.of(), preflight(idle, backup().build()));
      String index = newTerminal(outside);
      hold(idle, "open /dev/pts/" + index);
      CriuException refused = assertThrows(CriuException.class, () -> dump(idle, backup().build()));
      String errors = String.join("\n", refused.criu().orElseThrow().errors());
      assertTrue(errors.contains("Only one slave external peer"), errors);
      UnsupportedResource terminal =
          preflight(idle, backup().build()).stream()
              .map(Finding::resource)
              .filter(each -> each != null && each.name().equals("/dev/pts/" + index))
              .findFirst()
              .orElseThrow();
      assertEquals("/dev/pts/" + index, terminal.name());
      FileNode node = FileNode.at(Path.of("/dev/pts/" + index)).orElseThrow();
      assertEquals(
          "CriuOptions.set(\"external=tty[%x:%x]\")".formatted(node.number(), node.device()),
          terminal.option());
      assertCured(
          idle,
          backup().criu(c -> c.external(External.terminal(node.number(), node.device()))).build());
    }
  }

  /** Returns the number of a terminal whose master a process holds. */
  private String newTerminal(Workload holder) {
    String master = hold(holder, "master");
    String fdinfo = ProcFs.read(holder.pid(), "fdinfo/" + master).orElseThrow();
    return fdinfo.replaceAll("(?s).*tty-index:\\s*(\\d+).*", "$1");
  }

  @Test
  void hasNoObjectionToATerminalOfItsOwn() {
    try (Workload idle = Workload.idle()) {
      String master = hold(idle, "master");
      String fdinfo = ProcFs.read(idle.pid(), "fdinfo/" + master).orElseThrow();
      hold(idle, "open /dev/pts/" + fdinfo.replaceAll("(?s).*tty-index:\\s*(\\d+).*", "$1"));
      assertCured(idle, backup().build());
    }
  }

  @Test
  void namesTheTracer() {
    // The tracer is ended first: until then the other's zombie is not ours to reap.
    try (Workload idle = Workload.idle();
        Workload tracer = Workload.idle()) {
      hold(tracer, "trace " + idle.pid());
      List<Finding> findings = preflight(idle, backup().build());
      assertEquals(1, findings.size(), findings::toString);
      assertTrue(findings.get(0).isProblem());
      String text = findings.get(0).toString();
      assertTrue(
          text.matches(".*: process %d \\(idle.*\\) traces it.*".formatted(tracer.pid())), text);
      assertThrows(CriuException.class, () -> dump(idle, backup().build()));
    }
  }

  /** For both resources CRIU reports only the descriptor, or a wrong remedy. */
  @Test
  @OutsideUse("B5")
  void refusesQueuesAndSecrets_withTheirCure() throws Exception {
    String program =
        """
        # mq_open(2) and memfd_secret(2): O_RDWR | O_CREAT, and no flags
        my $queue = syscall($ARGV[0], "gpuprocess-$$", 0102, 0600, 0);
        syscall($ARGV[1], "gpuprocess-$$") == 0 or die;
        my $secret = syscall(447, 0);
        open my $ready, '>', $ARGV[2] or die;
        print $ready "$queue $secret";
        close $ready;
        sleep 1000 while 1;
        """;
    boolean arm = System.getProperty("os.arch").equals("aarch64");
    Path ready = directory.resolve("ready");
    String[] command = {
      "perl", "-e", program, arm ? "180" : "240", arm ? "181" : "241", ready.toString()
    };
    try (dev.gpuprocess.contract.Workload perl = dev.gpuprocess.contract.Workload.of(command)) {
      dev.gpuprocess.contract.Workload.await(() -> ready.toFile().length() > 2, "the descriptors");
      String[] held = Files.readString(ready).split(" ");
      List<String> found =
          criu.preflight(perl.identity(), backup().build()).stream()
              .filter(Finding::isProblem)
              .map(Finding::toString)
              .toList();
      assertTrue(
          found.stream()
              .anyMatch(
                  text -> text.contains("descriptor " + held[0] + ":") && text.contains("queue")),
          found::toString);
      // Where the kernel has it.
      assertEquals(held[1].equals("-1") ? 1 : 2, found.size(), found::toString);
      CriuException e =
          assertThrows(
              CriuException.class,
              () ->
                  criu.dump(
                      new DumpRequest(
                          perl.identity(),
                          Files.createDirectory(directory.resolve("images")),
                          Files.createDirectory(directory.resolve("work")),
                          backup().build()),
                      DumpListener.NONE));
      assertFalse(String.valueOf(e.getMessage()).contains("External.file"), e::getMessage);
    }
  }

  @Test
  void mentionsARootThatDoesNotLeadItsSession() {
    try (dev.gpuprocess.contract.Workload counter =
        dev.gpuprocess.contract.Workload.counter(directory)) {
      List<Finding> findings = criu.preflight(counter.identity(), backup().build());
      assertEquals(1, findings.size(), findings::toString);
      assertEquals(Severity.OK, findings.get(0).severity());
      assertTrue(findings.get(0).what().contains("is not the leader of its session"));
    }
  }

  @Test
  void looksAtTheWholeTree() {
    String program = "open my $f, '<', '/dev/fuse' or die; fork; fork; sleep 1000 while 1";
    try (dev.gpuprocess.contract.Workload perl =
        dev.gpuprocess.contract.Workload.of("perl", "-e", program)) {
      dev.gpuprocess.contract.Workload.await(
          () -> ProcFs.descendants(perl.pid()).size() == 3, "three children");
      List<ProcessIdentity> children =
          ProcFs.descendants(perl.pid()).stream()
              .flatMap(pid -> ProcessIdentity.of(pid).stream())
              .toList();
      try {
        List<Integer> pids =
            criu.preflight(perl.identity(), backup().build()).stream()
                .filter(Finding::isProblem)
                .map(finding -> Objects.requireNonNull(finding.resource()).pid())
                .sorted()
                .toList();
        List<Integer> tree = new ArrayList<>(ProcFs.descendants(perl.pid()));
        tree.add(perl.pid());
        assertEquals(tree.stream().sorted().toList(), pids);
      } finally {
        children.forEach(dev.gpuprocess.contract.Workload::end);
      }
    }
  }

  @Test
  void namesTheCureForASessionFromOutside() {
    String said =
        ProgramRun.of(
                TestJvm.commandBy(
                        List.of("unshare", "--pid", "--fork", "--mount-proc"),
                        SessionFromOutside.class,
                        directory.toString())
                    .toArray(String[]::new))
            .succeed(Duration.ofMinutes(3));
    String cure = "start the process in a session of its own, with setsid";
    assertTrue(said.matches("(?s).*found: process \\d+ \\(perl\\), session 0: .*"), said);
    assertTrue(said.contains(cure), said);
    assertTrue(said.matches("(?s).*failed: dump of .* the process runs on: .*"), said);
    assertTrue(said.contains("A session leader of"), said);
  }

  /** Seen from outside that namespace the session has a number. */
  @Test
  @OutsideUse("B5")
  void findsASessionLeaderOutsideOfANestedPidNamespace() {
    try (dev.gpuprocess.contract.Workload unshare =
        dev.gpuprocess.contract.Workload.of(
            "unshare", "--pid", "--fork", "--kill-child", "sleep", "1000")) {
      dev.gpuprocess.contract.Workload.await(
          () ->
              ProcFs.descendants(unshare.pid()).stream()
                  .anyMatch(pid -> ProcFs.commandLine(pid).contains("1000")),
          "the namespace");
      int init = ProcFs.descendants(unshare.pid()).get(0);
      List<Finding> findings =
          criu.preflight(ProcessIdentity.of(init).orElseThrow(), backup().build()).stream()
              .filter(Finding::isProblem)
              .toList();
      assertEquals(1, findings.size(), findings::toString);
      assertTrue(findings.get(0).cure().contains("setsid"), findings::toString);
    }
  }

  @Test
  void refusesATreeWithThisJvm() {
    ProcessIdentity self = ProcessIdentity.of(ProcessHandle.current().pid()).orElseThrow();
    assertTrue(
        criu.preflight(self, backup().build()).stream()
            .anyMatch(finding -> finding.isProblem() && finding.what().contains("this JVM")));
  }

  @Test
  void saysNothingOfAProcessThatIsGone() {
    ProcessIdentity gone;
    try (Workload idle = Workload.idle()) {
      gone = identity(idle);
    }
    assertEquals(List.of(), criu.preflight(gone, backup().build()));
  }

  @Test
  void namesManyDescriptorsOfOneDeviceOnce() {
    try (Workload idle = Workload.idle()) {
      hold(idle, "many /dev/fuse 20");
      List<Finding> findings = preflight(idle, backup().build());
      assertEquals(1, findings.size(), findings::toString);
      assertTrue(findings.get(0).subject().contains("and 12 more"), findings::toString);
    }
  }

  @Test
  void findsNothingWrongWithAThousandDescriptors() throws IOException {
    try (Workload idle = Workload.idle()) {
      hold(idle, "many /etc/passwd 900");
      hold(idle, "many /dev/null 50");
      for (int i = 0; i < 50; i++) {
        hold(idle, "unix-pair");
      }
      long best = Long.MAX_VALUE;
      for (int i = 0; i < 10; i++) {
        long begin = processorNanos();
        assertEquals(List.of(), preflight(idle, backup().build()));
        best = Math.min(best, processorNanos() - begin);
      }
      Figures.add("preflight of 1050 descriptors: %.1f ms of processor time".formatted(best / 1e6));
    }
  }

  /** The CPU time of this thread: other work on this machine does not count. */
  private static long processorNanos() throws IOException {
    return Long.parseLong(Files.readString(Path.of("/proc/thread-self/schedstat")).split(" ")[0]);
  }
}
