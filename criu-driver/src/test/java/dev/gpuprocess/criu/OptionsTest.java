package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.RETURNS_DEFAULTS;
import static org.mockito.Mockito.mock;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SocketTables;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Options of the real CRIU, each proven by the state of the tree afterwards. */
@NullUnmarked
class OptionsTest {

  /** Connects to itself, then writes a file. */
  private static final String CONNECTED =
      """
      use Socket; $SIG{HUP} = 'IGNORE';
      socket(my $l, AF_INET, SOCK_STREAM, 0); bind $l, pack_sockaddr_in(0, INADDR_LOOPBACK);
      listen $l, 1; socket(my $c, AF_INET, SOCK_STREAM, 0); connect $c, getsockname $l;
      accept my $a, $l; close $l; open my $f, '>', $ARGV[0]; close $f;
      sleep 1000 while 1;
      """;

  private static final String BEAT =
      "while (1) { syswrite %s, 'beat '; select undef, undef, undef, 0.01 }";

  private static final int SOCK_STREAM = 1;

  @TempDir Path directory;
  private DumpDirectories site;
  private Path ready;

  @BeforeEach
  void makeSite() {
    RealCriu.assume();
    site = DumpDirectories.in(directory.resolve("site"), driver());
    ready = directory.resolve("ready");
  }

  CriuDriver driver() {
    return new RpcCriuDriver();
  }

  DumpDirectories site() {
    return site;
  }

  private Workload perl(String program) {
    Workload workload = Workload.of("perl", "-e", program, ready.toString());
    Workload.await(() -> Files.exists(ready), "the program to be ready");
    return workload;
  }

  private static void assertStopped(ProcessIdentity process) {
    Workload.await(
        () -> Processes.stat(process).filter(stat -> stat.state() == 'T').isPresent(),
        "the tree to stop");
  }

  private static void goOn(ProcessIdentity process) {
    Signal.send("CONT", process.pid());
  }

  private static long inode(int pid, String kind) {
    return ProcFs.openFiles(pid).stream()
        .map(file -> file.target())
        .filter(target -> target.startsWith(kind + ":["))
        .map(target -> Long.parseLong(target.replaceAll("\\D", "")))
        .findFirst()
        .orElseThrow();
  }

  private static long established(ProcessIdentity process) {
    List<Long> own =
        ProcFs.openFiles(process.pid()).stream()
            .filter(file -> file.target().startsWith("socket:["))
            .map(file -> Long.valueOf(file.target().replaceAll("\\D", "")))
            .toList();
    return SocketTables.tcp(process.pid()).values().stream()
        .filter(socket -> own.contains(socket.inode()) && socket.state() == 1)
        .count();
  }

  @Test
  void leaveStopped_afterADump_leavesItStopped() {
    try (Workload workload = Workload.counter(directory)) {
      site.dump(workload.identity(), DumpDirectories.dump().leaveStopped(true).build());
      assertStopped(workload.identity());
      goOn(workload.identity());
      workload.assertGoesOn();
    }
  }

  @Test
  void leaveStopped_afterARestore_leavesItStopped() {
    try (Workload workload = Workload.counter(directory)) {
      site.dump(workload.identity(), DumpDirectories.dump().build());
      ProcessIdentity restored =
          site.restore(workload.pid(), DumpDirectories.shellJob().leaveStopped(true).build())
              .process();
      try {
        assertStopped(restored);
        goOn(restored);
        workload.assertGoesOn();
      } finally {
        Workload.end(restored);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"AUTOMATIC", "NFTABLES", "SKIP"})
  void tcpEstablished_keepsConnections_howeverTheyAreLocked(NetworkLock lock) {
    try (Workload workload = perl(CONNECTED)) {
      site.dump(
          workload.identity(),
          DumpDirectories.dump().criu(c -> c.tcpEstablished(true).networkLock(lock)).build());
      ProcessIdentity restored =
          site.restore(
                  workload.pid(),
                  DumpDirectories.shellJob().criu(c -> c.tcpEstablished(true)).build())
              .process();
      try {
        assertEquals(2, established(restored));
      } finally {
        Workload.end(restored);
      }
    }
  }

  @Test
  void tcpClose_atTheRestore_closesWhatWasKept() {
    try (Workload workload = perl(CONNECTED)) {
      site.dump(
          workload.identity(), DumpDirectories.dump().criu(c -> c.tcpEstablished(true)).build());
      ProcessIdentity restored =
          site.restore(
                  workload.pid(), DumpDirectories.shellJob().criu(c -> c.tcpClose(true)).build())
              .process();
      try {
        assertEquals(0, established(restored));
      } finally {
        Workload.end(restored);
      }
    }
  }

  @Test
  void inherit_replacesAPipe_byAFileOfOurs() throws IOException {
    String program = "$SIG{HUP} = 'IGNORE'; $SIG{PIPE} = 'IGNORE'; " + BEAT.formatted("STDOUT");
    Process talker =
        new ProcessBuilder("perl", "-e", program)
            .redirectInput(Path.of("/dev/null").toFile())
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    ProcessIdentity process = ProcessIdentity.of(talker.pid()).orElseThrow();
    ProcessIdentity restored = null;
    try {
      assertEquals('b', talker.getInputStream().read());
      Path fifo = directory.resolve("fifo");
      ProgramRun.of("mkfifo", fifo.toString()).succeed();
      long pipe = inode(process.pid(), "pipe");
      site.dump(process, DumpDirectories.dump().build());
      RestoreOptions options =
          DumpDirectories.shellJob().criu(c -> c.inherit("pipe:[" + pipe + "]", fifo)).build();
      restored = site.restore(process.pid(), options).process();
      try (RandomAccessFile in = new RandomAccessFile(fifo.toFile(), "rw")) {
        byte[] heard = new byte[5];
        in.readFully(heard);
        assertEquals("beat ", new String(heard, StandardCharsets.US_ASCII));
      }
    } finally {
      talker.destroyForcibly();
      if (restored != null) {
        Workload.end(restored);
      }
    }
  }

  @Test
  void external_letsAHalfOfAPairGo_andInheritGivesItAnother() throws IOException {
    // Ready when each of the two has its own half alone.
    String program =
        """
        use Socket; $SIG{HUP} = 'IGNORE'; $SIG{PIPE} = 'IGNORE';
        socketpair my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC;
        if (my $child = fork) { close $b; syswrite $a, '!'; sleep 1000 while 1 }
        close $a; sysread $b, my $alone, 1; open my $f, '>', $ARGV[0]; close $f;
        """
            + BEAT.formatted("$b");
    try (Workload parent = perl(program)) {
      Workload.await(() -> !ProcFs.descendants(parent.pid()).isEmpty(), "a child");
      int child = ProcFs.descendants(parent.pid()).get(0);
      ProcessIdentity half = ProcessIdentity.of(child).orElseThrow();
      long socket = inode(child, "socket");
      DumpOptions options =
          DumpDirectories.dump().criu(c -> c.external(External.unixSocket(socket))).build();
      site.dump(half, options);
      Workload.await(() -> ProcFs.stat(child).isPresent(), "the child's parent not to reap");
      parent.close(); // so that init reaps the child
      Workload.await(() -> ProcFs.stat(child).isEmpty(), "the child to be reaped");
      int[] pair = new int[2];
      Libc.check(Libc.functions().socketpair(Libc.AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
      RestoreOptions restore =
          DumpDirectories.shellJob()
              .criu(c -> c.inherit("socket:[" + socket + "]", pair[0]))
              .build();
      ProcessIdentity restored = site.restore(child, restore).process();
      try {
        byte[] heard = new byte[5];
        assertEquals(5, Libc.functions().recv(pair[1], heard, heard.length, 0));
        assertEquals("beat ", new String(heard, StandardCharsets.US_ASCII));
      } finally {
        Workload.end(restored);
        Libc.close(pair[0]);
        Libc.close(pair[1]);
      }
    }
  }

  @Test
  void join_putsTheTreeIntoANamespaceThatIsThere() throws IOException {
    try (Workload workload = Workload.counter(directory);
        Workload host = Workload.of("unshare", "--uts", "sleep", "1000")) {
      Path there = Path.of("/proc", Integer.toString(host.pid()), "ns", "uts");
      Path here = Path.of("/proc/self/ns/uts");
      String ours = Files.readSymbolicLink(here).toString();
      Workload.await(
          () -> {
            try {
              return !Files.readSymbolicLink(there).toString().equals(ours);
            } catch (IOException e) {
              return false;
            }
          },
          "a namespace");
      site.dump(workload.identity(), DumpDirectories.dump().build());
      RestoreOptions options =
          DumpDirectories.shellJob().criu(c -> c.set("join-ns=uts:" + there)).build();
      ProcessIdentity restored = site.restore(workload.pid(), options).process();
      try {
        assertEquals(
            Files.readSymbolicLink(there),
            Files.readSymbolicLink(
                Path.of("/proc", Integer.toString(restored.pid()), "ns", "uts")));
      } finally {
        Workload.end(restored);
      }
    }
  }

  @Test
  void aTreeWithItsOwnNetwork_isToldOfAtEveryStage() {
    List<String> stages = new ArrayList<>();
    try (Workload workload =
        Workload.of("unshare", "--net", "--uts", "--ipc", "setsid", "sleep", "1000")) {
      Workload.await(
          () -> ProcFs.stat(workload.pid()).filter(s -> s.name().equals("sleep")).isPresent(),
          "sleep");
      site.dump(
          workload.identity(),
          DumpDirectories.dump().build(),
          recorder(DumpListener.class, stages));
      assertEquals(dumpStages(), stages);
      stages.clear();
      ProcessIdentity restored =
          site.restore(
                  workload.pid(),
                  RestoreOptions.builder().deadline(DumpDirectories.PATIENCE).build(),
                  recorder(RestoreListener.class, stages))
              .process();
      try {
        assertEquals(
            List.of(
                "pre-restore",
                "setup-namespaces " + workload.pid(),
                "post-setup-namespaces",
                "post-restore " + workload.pid(),
                "network-unlock",
                "pre-resume",
                "post-resume"),
            stages);
      } finally {
        Workload.end(restored);
      }
    }
  }

  List<String> dumpStages() {
    return List.of("pre-dump", "network-lock", "query-external-files", "post-dump");
  }

  /** A listener that records the calls of its methods, which are named after the stages of CRIU. */
  private static <T> T recorder(Class<T> listener, List<String> stages) {
    return mock(
        listener,
        call -> {
          String stage = call.getMethod().getName().replaceAll("(?=[A-Z])", "-");
          Stream<Object> pid = Stream.of(call.getArguments());
          stages.add(
              Stream.concat(Stream.of(stage.toLowerCase(Locale.ROOT)), pid)
                  .map(String::valueOf)
                  .collect(Collectors.joining(" ")));
          return RETURNS_DEFAULTS.answer(call);
        });
  }

  @Test
  void optionsThatRpcDoesNotCarry_goThroughAFile() throws IOException {
    DumpDirectories other = DumpDirectories.in(directory.resolve("other"), site.driver());
    try (Workload workload = Workload.counter(directory)) {
      other.dump(workload.identity(), DumpDirectories.backup().build());
      DumpOptions bySize =
          DumpDirectories.backup()
              .criu(c -> c.set("file-validation=filesize").set("ghost-fiemap"))
              .build();
      site.dump(workload.identity(), bySize);
    }
    assertEquals(
        List.of("file-validation filesize", "ghost-fiemap"),
        Files.readAllLines(site.work().resolve(RpcLink.CONFIG)));
    assertFalse(Files.exists(other.work().resolve(RpcLink.CONFIG)));
    // CRIU has read the option: these images have no build ids.
    assertTrue(
        Files.size(site.images().resolve("files.img"))
            < Files.size(other.images().resolve("files.img")));
  }

  @Test
  void asChild_makesTheRootAChildOfOurs_andTellsHowItEnds() throws Exception {
    try (Workload workload = Workload.counter(directory)) {
      site.dump(workload.identity(), DumpDirectories.dump().build());
      ProcessIdentity restored =
          site.driver()
              .restore(
                  site.request(workload.pid(), DumpDirectories.shellJob().build()).asChild(true),
                  RestoreListener.NONE)
              .process();
      try (PidDescriptor child = PidDescriptor.open(restored.pid())) {
        assertFalse(child.awaitEnd(Duration.ZERO));
        workload.assertGoesOn();
        Workload.end(restored);
        assertTrue(child.awaitEnd(DumpDirectories.PATIENCE));
        assertEquals(9, child.reap().orElseThrow().signal());
      }
      assertTrue(Processes.stat(restored).isEmpty(), "its pid is free");
    }
  }

  @Test
  void asChild_whenTheRestoreFails_leavesNoZombie() {
    RestoreListener refusing =
        new RestoreListener() {
          @Override
          public void postRestore(int pid) {
            throw new IllegalStateException("not today");
          }
        };
    try (Workload workload = Workload.counter(directory)) {
      site.dump(workload.identity(), DumpDirectories.dump().build());
      RestoreRequest request =
          site.request(workload.pid(), DumpDirectories.shellJob().build()).asChild(true);
      assertThrows(CriuException.class, () -> site.driver().restore(request, refusing));
      assertTrue(ProcFs.stat(workload.pid()).isEmpty(), "its pid is free");
      Workload.end(site.restore(workload.pid(), DumpDirectories.shellJob().build()).process());
    }
  }

  @Test
  void unprivileged_works() {
    try (Workload workload = Workload.counter(directory)) {
      site.dump(
          workload.identity(), DumpDirectories.dump().criu(c -> c.unprivileged(true)).build());
      Workload.end(
          site.restore(
                  workload.pid(),
                  DumpDirectories.shellJob().criu(c -> c.unprivileged(true)).build())
              .process());
    }
  }
}
