package dev.gpuprocess.criu.preflight;

import dev.gpuprocess.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.proc.SocketTables;
import dev.gpuprocess.proc.TcpSocket;
import dev.gpuprocess.proc.UnixSocket;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** The sockets of the tree. */
final class SocketCheck {

  private final Troubles troubles;
  private final DumpOptions options;
  private final Map<String, Tables> namespaces = new HashMap<>();

  /** By inode, for the other end of a pair has the next one. */
  private final TreeMap<Long, Connected> connected = new TreeMap<>();

  private record Connected(Place place, UnixSocket socket) {}

  SocketCheck(Troubles troubles, DumpOptions options) {
    this.troubles = troubles;
    this.options = options;
  }

  void look(Place place, long inode) {
    Tables tables = tables(place.pid());
    UnixSocket unix = tables.unix.get(inode);
    TcpSocket tcp = unix == null ? tables.tcp().get(inode) : null;
    if (tcp != null) {
      lookAtTcp(place, tcp);
    } else if (unix != null && unix.connected()) {
      connected.putIfAbsent(inode, new Connected(place, unix));
    }
  }

  /** The sockets of a network namespace. The kernel takes milliseconds to list those of TCP. */
  private static final class Tables {

    private final int pid;
    private final Map<Long, UnixSocket> unix;
    private @Nullable Map<Long, TcpSocket> tcp;

    Tables(int pid) {
      this.pid = pid;
      this.unix = SocketTables.unix(pid);
    }

    Map<Long, TcpSocket> tcp() {
      Map<Long, TcpSocket> known = tcp;
      if (known == null) {
        known = SocketTables.tcp(pid);
        tcp = known;
      }
      return known;
    }
  }

  /** All processes of a network namespace see the same tables. */
  private Tables tables(int pid) {
    String namespace;
    try {
      Path link = Path.of("/proc", Integer.toString(pid), "ns", "net");
      namespace = Files.readSymbolicLink(link).toString();
    } catch (IOException goneOrForbidden) {
      return new Tables(pid);
    }
    return namespaces.computeIfAbsent(namespace, name -> new Tables(pid));
  }

  private void lookAtTcp(Place place, TcpSocket socket) {
    if (socket.isListening() && socket.waiting() > 0 && !options.tcpSkipInFlight()) {
      troubles.needs(
          place,
          "tcp listener " + socket.local(),
          "has connections that it has not accepted",
          "DumpOptions.tcpSkipInFlight(true)");
    } else if (socket.isConnected() && !options.tcpEstablished() && !options.tcpClose()) {
      troubles.needs(
          place,
          "tcp " + socket.local() + " -> " + socket.remote(),
          "is connected",
          "DumpOptions.tcpEstablished(true)");
    }
  }

  /**
   * Which socket a UNIX socket is connected to the kernel does not say in {@code /proc}. The two
   * ends of a socketpair are made one after the other, so their inodes are neighbours; of all
   * others it cannot be known.
   */
  void finish() {
    while (!connected.isEmpty()) {
      Map.Entry<Long, Connected> one = connected.pollFirstEntry();
      Connected next = connected.get(one.getKey() + 1);
      if (isPair(one.getValue(), next)) {
        connected.remove(one.getKey() + 1);
      } else {
        lookAtUnix(one.getValue());
      }
    }
  }

  private static boolean isPair(Connected one, @Nullable Connected next) {
    return next != null
        && one.socket().type() == next.socket().type()
        && one.socket().name().isEmpty()
        && next.socket().name().isEmpty();
  }

  private void lookAtUnix(Connected one) {
    UnixSocket socket = one.socket();
    if (options.external().contains(External.unixSocket(socket.inode()))
        || (socket.isDatagram() && options.externalUnixSockets())) {
      return;
    }
    troubles.warning(
        one.place(),
        "unix %s socket %s"
            .formatted(socket.isDatagram() ? "datagram" : "stream", socket.name())
            .strip(),
        "is connected, and the kernel does not tell whether to this tree",
        "if it leads outside, set DumpOptions."
            + (socket.isDatagram()
                ? "externalUnixSockets(true)"
                : "external(External.unixSocket(%d))".formatted(socket.inode())));
  }
}
