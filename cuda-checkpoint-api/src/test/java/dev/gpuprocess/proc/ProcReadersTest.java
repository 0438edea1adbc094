package dev.gpuprocess.proc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.proc.Capabilities.Capability;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Readers of {@code /proc}, on this JVM and on texts that are hard to come by. */
@Tag("jdk")
class ProcReadersTest {

  private static final long SELF = ProcessHandle.current().pid();

  @TempDir Path directory;

  @Test
  void fileNodeTellsDevicesAndRemovedFiles() throws IOException {
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
    FileNode node = new FileNode(0, 0, 0, 0, 0, 0x120006783459aL);
    assertEquals("12345:6789a", "%x:%x".formatted(node.major(), node.minor()));
  }

  @Test
  void mappingKeepsBlanksAndTheMarkOfRemovedFiles() {
    Mapping mapping =
        Mapping.parse(
            "7f0000001000-ffffffffff601000 r-xp 00000000 fe:00 12345      /a b/c (deleted)");
    assertEquals("7f0000001000-ffffffffff601000", mapping.range());
    assertEquals("fe:00", mapping.device());
    assertEquals(12345, mapping.inode());
    assertEquals("/a b/c (deleted)", mapping.name());
    assertEquals("", Mapping.parse("00400000-00401000 rw-p 00000000 00:00 0 ").name());
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
      assertEquals(1, listener.waiting(), "nobody has accepted the connection");
      assertFalse(listener.isConnected());
    }
  }

  @Test
  void programsOfRootGetWhatTheBoundAllows() {
    long admin = 1L << 21;
    assertTrue(new Capabilities(true, 0, 0, admin, 0).handsOn(Capability.SYS_ADMIN));
    assertFalse(new Capabilities(true, admin, 0, 0, 0).handsOn(Capability.SYS_ADMIN));
    assertFalse(new Capabilities(false, admin, 0, admin, 0).handsOn(Capability.SYS_ADMIN));
    assertTrue(new Capabilities(false, admin, admin, admin, admin).handsOn(Capability.SYS_ADMIN));
    assertFalse(Capabilities.of(Long.MAX_VALUE).has(Capability.SYS_ADMIN));
  }

  @Test
  void memoryRoomIsTheTightestOfAllGroupsAbove() throws IOException {
    group("", "max", 0, 0);
    group("job", "1000", 300, 100);
    group("job/rank0", "5000", 200, 0);
    assertEquals(OptionalLong.of(800), ControlGroup.memoryRoom(directory, "/job/rank0"));
    group("job", "max", 300, 100);
    assertEquals(OptionalLong.of(4800), ControlGroup.memoryRoom(directory, "/job/rank0"));
    assertEquals(OptionalLong.empty(), ControlGroup.memoryRoom(directory, "/elsewhere"));
  }

  private void group(String name, String limit, long used, long cached) throws IOException {
    Path group = Files.createDirectories(directory.resolve(name));
    Files.writeString(group.resolve("memory.max"), limit + "\n");
    Files.writeString(group.resolve("memory.current"), used + "\n");
    Files.writeString(
        group.resolve("memory.stat"),
        "anon 1\nactive_file %d\ninactive_file 0\n".formatted(cached));
  }
}
