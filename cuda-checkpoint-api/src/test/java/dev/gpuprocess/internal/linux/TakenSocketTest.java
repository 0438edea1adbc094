package dev.gpuprocess.internal.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which sockets of a process are of a pair. They are those of this JVM. */
class TakenSocketTest {

  private static final int SELF = Math.toIntExact(ProcessHandle.current().pid());
  private static final int SOL_SOCKET = 1;
  private static final int SO_PEERNAME = 28;
  private static final int FAMILY = 2;

  private static boolean isOfPair(int descriptor) throws NativeCallException {
    try (TakenSocket socket = TakenSocket.of(SELF, descriptor)) {
      return socket.isOfPair();
    }
  }

  private static Set<Integer> sockets() throws IOException {
    try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
      return all.filter(TakenSocketTest::isSocket)
          .map(each -> Integer.valueOf(each.getFileName().toString()))
          .collect(Collectors.toSet());
    }
  }

  private static boolean isSocket(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor).toString().startsWith("socket:");
    } catch (IOException closed) {
      return false;
    }
  }

  private static boolean isConnected(int descriptor) {
    try (TakenSocket socket = TakenSocket.of(SELF, descriptor)) {
      return socket.read(SOL_SOCKET, SO_PEERNAME, new byte[FAMILY]) == FAMILY;
    } catch (NativeCallException closed) {
      return false;
    }
  }

  @Test
  void socketsOfPairsAre() throws Exception {
    try (PacketSocketPair pair = PacketSocketPair.make()) {
      assertTrue(isOfPair(pair.theirs()));
    }
  }

  @Test
  void aSocketThatIsConnectedToAServiceIsNot(@TempDir Path directory) throws Exception {
    UnixDomainSocketAddress service = UnixDomainSocketAddress.of(directory.resolve("service"));
    Set<Integer> before = sockets();
    try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
      server.bind(service);
      try (SocketChannel client = SocketChannel.open(service)) {
        Set<Integer> made = sockets();
        made.removeAll(before);
        List<Integer> connected = made.stream().filter(TakenSocketTest::isConnected).toList();
        // The server has not accepted it, so the client is the only one.
        assertEquals(1, connected.size(), client + " of " + made);
        assertFalse(isOfPair(connected.get(0)));
      }
    }
  }
}
