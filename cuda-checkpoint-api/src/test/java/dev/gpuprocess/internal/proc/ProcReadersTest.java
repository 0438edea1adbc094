package dev.gpuprocess.internal.proc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Readers of {@code /proc}, on this JVM and on texts that are hard to provoke. */
@Tag("jdk")
class ProcReadersTest {

  private static final long SELF = ProcessHandle.current().pid();

  @TempDir Path directory;

  @Test
  void fileNodeDescribesDevicesAndRemovedFiles() throws IOException {
    FileNode device = FileNode.at(Path.of("/dev/null")).orElseThrow();
    assertTrue(device.isCharacterDevice());
    assertEquals("1:3", device.major() + ":" + device.minor());
    Path file = Files.writeString(directory.resolve("file"), "12345");
    FileNode node = FileNode.at(file).orElseThrow();
    assertTrue(node.isRegular());
    assertEquals(5, node.bytes());
    assertEquals(1, node.links());
    assertTrue(FileNode.at(directory.resolve("none")).isEmpty());
  }

  @Test
  void largeDeviceNumbersAreSplitAsTheKernelDoes() {
    // makedev(0x12345, 0x6789a) of glibc
    FileNode node = new FileNode(0, 0, 0, 0, 0, 0x120006783459aL, 0, 0);
    assertEquals("12345:6789a", "%x:%x".formatted(node.major(), node.minor()));
  }

  @Test
  void mappingKeepsBlanksAndTheMarkOfRemovedFiles() {
    Mapping mapping =
        Mapping.parse(
                "7f0000001000-ffffffffff601000 r-xp 00000000 fe:00 12345      /a b/c (deleted)")
            .orElseThrow();
    assertEquals("7f0000001000-ffffffffff601000", mapping.range());
    assertEquals("fe:00", mapping.device());
    assertEquals(12345, mapping.inode());
    assertEquals("/a b/c (deleted)", mapping.name());
    assertEquals(
        "", Mapping.parse("00400000-00401000 rw-p 00000000 00:00 0 ").orElseThrow().name());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "x",
        "-",
        "1-2",
        "rw-p 00000000 00:00 0",
        "1-g r 0 0 0",
        "1-2 r 0 0 99999999999999999999"
      })
  @OutsideUse("A18")
  void aLineThatIsNotAMappingIsIgnored(String line) {
    assertEquals(Optional.empty(), Mapping.parse(line));
  }

  @Test
  @OutsideUse("A18")
  void mappingKeepsAnyCharacterInItsName() {
    String name = "/a\rb\u0085c\u2028d\\012e";
    assertEquals(
        name,
        Mapping.parse("00400000-00401000 rw-p 00000000 fe:00 7 " + name).orElseThrow().name());
  }

  /** Fifteen characters suffice to look like a line of {@code /proc/PID/status}. */
  @ParameterizedTest
  @ValueSource(strings = {"\rRssAnon:", "\rSigPnd:zz", "a\nRssAnon:"})
  @OutsideUse("A18")
  void noProcessNameIsParsedAsALine(String name) throws Exception {
    Process process =
        new ProcessBuilder("perl", "-e", "$0 = $ARGV[0]; $| = 1; print 1; sleep 1000 while 1", name)
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    try {
      assertEquals('1', process.getInputStream().read());
      long pid = process.pid();
      assertTrue(ProcFs.anonymousBytes(pid) > 0);
      assertFalse(ProcFs.isEnding(pid));
      assertEquals("0", ProcFs.status(pid).get("TracerPid"));
    } finally {
      process.destroyForcibly().waitFor();
    }
  }

  @Test
  void mappingsOfThisJvmAreRead() {
    assertTrue(ProcFs.memory(SELF).stream().anyMatch(m -> m.name().endsWith("libjvm.so")));
    assertTrue(ProcFs.threads(SELF).contains((int) SELF));
    assertEquals("0", ProcFs.status(SELF).get("TracerPid"));
  }

  @Test
  void connectionsAreFoundByInode() throws IOException {
    try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Socket client = new Socket(server.getInetAddress(), server.getLocalPort())) {
      // The JDK makes sockets of version 6 that speak version 4.
      String remote = ":" + client.getPort();
      TcpSocket found =
          SocketTables.tcp(SELF).values().stream()
              .filter(socket -> socket.isConnected() && socket.remote().endsWith(remote))
              .findFirst()
              .orElseThrow();
      assertTrue(found.local().endsWith(":" + client.getLocalPort()), found::toString);
      assertTrue(found.remote().contains("127.0.0.1"), found::toString);
      String link = "socket:[" + found.inode() + "]";
      assertTrue(ProcFs.openFiles(SELF).stream().anyMatch(file -> file.target().equals(link)));
      TcpSocket listener =
          SocketTables.tcp(SELF).values().stream()
              .filter(s -> s.isListening() && s.local().endsWith(":" + server.getLocalPort()))
              .findFirst()
              .orElseThrow();
      assertEquals(1, listener.waiting(), "the connection was not accepted yet");
      assertFalse(listener.isConnected());
    }
  }

  @Test
  @OutsideUse("D5")
  void commandLineOfAnyLengthIsCut() {
    String[] command = new String[24];
    Arrays.fill(command, "x".repeat(1000));
    System.arraycopy(new String[] {"perl", "-e", "sleep 100", "--"}, 0, command, 0, 4);
    try (Workload perl = Workload.of(command)) {
      Workload.await(() -> !ProcFs.commandLine(perl.pid()).isEmpty(), "its arguments");
      Workload.await(
          () -> ProcFs.commandLine(perl.pid()).get(0).equals("perl"), "the program to be perl");
      List<String> line = ProcFs.commandLine(perl.pid());
      int length = String.join(" ", line).length();
      assertTrue(length > 4000 && length < 4200, () -> length + " characters");
      assertTrue(line.get(line.size() - 1).endsWith("x..."), line::toString);
      assertEquals("x".repeat(1000), line.get(4));
    }
  }

  /** CRIU writes what it does over its arguments; the program has different names. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "criu: dump --rpc -t 12 -D /images",
        "criu.bin: dump --rpc -t 12",
        "renamed: pre-dump --rpc -t 12",
        "/usr/sbin/criu-4.2"
      })
  void aCriuIsRecognised(String title) {
    // Another sign stands before the title among its arguments.
    try (Workload perl =
        Workload.of("perl", "-e", "$0 = substr $ARGV[0], 1; sleep 100", "+" + title)) {
      Workload.await(() -> ProcFs.isCriu(perl.pid()), "its title");
    }
  }

  @Test
  void aControllerThatNamesCriuIsNone() {
    String option = "-Dgpuprocess.criu=/usr/sbin/criu";
    try (Workload perl = Workload.of("perl", "-e", "sleep 100", "--", option, "/opt/criu.jar")) {
      Workload.await(() -> ProcFs.commandLine(perl.pid()).contains(option), "its arguments");
      assertFalse(ProcFs.isCriu(perl.pid()));
      assertTrue(perl.identity().isAlive(), "it must have been asked while it lived");
    }
  }

  /** The name may contain any text, even the end of its own field. */
  @Test
  @OutsideUse("D5")
  void statIsReadForAnyProcessName() {
    String rename =
        "open my $f, '>', '/proc/self/comm'; syswrite $f, qq{x) Z 1\\n) (\\xff}; close $f; sleep 100";
    try (Workload perl = Workload.of("perl", "-e", rename)) {
      Workload.await(
          () -> ProcFs.stat(perl.pid()).orElseThrow().name().startsWith("x) Z 1"), "its name");
      ProcStat stat = ProcFs.stat(perl.pid()).orElseThrow();
      assertEquals(SELF, stat.parent());
      assertFalse(stat.isDead());
      assertTrue(perl.identity().isAlive());
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "12",
        "12 (x",
        "12 )x(",
        "12 (x)",
        "12 (x) S 1 2",
        "12 (x)  S S 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 5",
        "99999999999 (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5",
        "12 (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 99999999999999999999"
      })
  void aMalformedStatIsRefused(String line) {
    assertThrows(IllegalArgumentException.class, () -> ProcStat.parse(line));
  }

  @Test
  @OutsideUse("A6")
  void anUnreadableProcessDoesNotCountAsGone() {
    // The memory of a process cannot be read from its start: page 0 is not mapped.
    ProcessUnreadableException e =
        assertThrows(ProcessUnreadableException.class, () -> ProcFs.read(SELF, "mem"));
    assertTrue(e.getMessage().contains("/mem cannot be read"), e.getMessage());
    assertEquals(SELF, e.failure().pid());
    assertEquals(Optional.empty(), ProcFs.read(SELF, "none"));
    assertEquals(Optional.empty(), ProcFs.read(Integer.MAX_VALUE, "stat"));
    assertEquals(List.of(), ProcFs.threads(Integer.MAX_VALUE));
    assertEquals(List.of(), ProcFs.openFiles(Integer.MAX_VALUE));
  }

  @Test
  void programsOfRootGetTheBoundingSet() {
    long admin = 1L << 21;
    assertTrue(new Capabilities(true, 0, 0, admin, 0).handsOn(Capability.SYS_ADMIN));
    assertFalse(new Capabilities(true, admin, 0, 0, 0).handsOn(Capability.SYS_ADMIN));
    assertFalse(new Capabilities(false, admin, 0, admin, 0).handsOn(Capability.SYS_ADMIN));
    assertTrue(new Capabilities(false, admin, admin, admin, admin).handsOn(Capability.SYS_ADMIN));
    assertFalse(Capabilities.of(Long.MAX_VALUE).has(Capability.SYS_ADMIN));
  }
}
