package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.linux.TakenSocket;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SocketTables;
import dev.gpuprocess.internal.proc.TcpSocket;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.report.Finding.Severity;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The sockets of the tree. */
final class SocketCheck {

  /** What a program can do that opens sockets of MPTCP. */
  static final String MULTIPATH_CURE =
      "start a program in Go with GODEBUG=multipathtcp=0, and let others open TCP sockets";

  private static final int SOL_SOCKET = 1;
  private static final int SO_PROTOCOL = 38;

  /** {@code IPPROTO_MPTCP}. */
  private static final int MULTIPATH = 262;

  private final FindingCollector findings;
  private final DumpOptions options;
  private final List<Integer> tree;

  /** By the network namespace of the process, or by process where the namespace is not known. */
  private final Map<String, List<Held>> namespaces = new LinkedHashMap<>();

  /** The sockets that processes of the tree have open. */
  private final Set<Long> inside = new HashSet<>();

  private record Held(ResourceRef place, long inode) {}

  SocketCheck(FindingCollector findings, DumpOptions options, List<Integer> tree) {
    this.findings = findings;
    this.options = options;
    this.tree = tree;
  }

  void look(ResourceRef place, long inode) {
    if (inside.add(inode)) {
      namespaces
          .computeIfAbsent(namespace(place.pid()), none -> new ArrayList<>())
          .add(new Held(place, inode));
    }
  }

  private static String namespace(int pid) {
    Path link = ProcFs.file(pid, "ns", "net");
    try {
      return Files.readSymbolicLink(link).toString();
    } catch (IOException goneOrForbidden) {
      return link.toString();
    }
  }

  /** Asks the kernel only once per namespace: its tables cover the whole machine. */
  void finish() {
    namespaces.values().forEach(this::lookAtNamespace);
  }

  private void lookAtNamespace(List<Held> held) {
    int member = held.get(0).place().pid();
    Map<Long, UnixSocket> unix = unix(member);
    List<Held> others = held.stream().filter(each -> !unix.containsKey(each.inode())).toList();
    if (!others.isEmpty()) {
      Map<Long, TcpSocket> tcp = SocketTables.tcp(member);
      for (Held each : others) {
        TcpSocket socket = tcp.get(each.inode());
        if (socket != null) {
          lookAtTcp(each.place(), socket);
        } else if (isMultipath(each.place())) {
          findings.problem(
              each.place(),
              "socket:[" + each.inode() + "]",
              "is of MPTCP, which CRIU does not dump",
              MULTIPATH_CURE);
        }
      }
    }
    lookAtUnix(held, unix);
  }

  /** MPTCP is in no table of /proc, so a copy of the descriptor is read. */
  private static boolean isMultipath(ResourceRef place) {
    try (TakenSocket socket = TakenSocket.of(place.pid(), Integer.parseInt(place.handle()))) {
      return socket
          .get(SOL_SOCKET, SO_PROTOCOL)
          .filter(value -> value.length == Integer.BYTES)
          .map(value -> ByteBuffer.wrap(value).order(ByteOrder.nativeOrder()).getInt())
          .filter(protocol -> protocol == MULTIPATH)
          .isPresent();
    } catch (IOException goneOrForbidden) {
      return false; // CRIU will report it
    }
  }

  private Map<Long, UnixSocket> unix(int member) {
    try {
      return UnixSockets.seenBy(member);
    } catch (IOException e) {
      findings.add(
          Severity.OK,
          FindingCollector.process(member),
          "may have UNIX sockets whose other ends are not known: " + e.getMessage(),
          "");
      return Map.of();
    }
  }

  private void lookAtTcp(ResourceRef place, TcpSocket socket) {
    if (socket.isListening()
        && socket.waiting() > 0
        && !options.criu().has(CriuSwitch.SKIP_IN_FLIGHT)) {
      findings.needs(
          Kind.TCP_LISTENER,
          place,
          "tcp listener " + socket.local(),
          "has connections that it has not accepted",
          "skip-in-flight");
    } else if (socket.isConnected()
        && !options.criu().has(CriuSwitch.TCP_ESTABLISHED)
        && !options.criu().has(CriuSwitch.TCP_CLOSE)) {
      findings.needs(
          Kind.TCP_CONNECTION,
          place,
          "tcp " + socket.local() + " -> " + socket.remote(),
          "is connected",
          "tcp-established");
    }
  }

  private void lookAtUnix(List<Held> held, Map<Long, UnixSocket> unix) {
    Map<Held, UnixSocket> suspects = new LinkedHashMap<>();
    for (Held each : held) {
      UnixSocket socket = unix.get(each.inode());
      if (socket != null && leadsOutside(socket, inside, unix) && !isAllowed(socket, unix)) {
        suspects.put(each, socket);
      }
    }
    if (!suspects.isEmpty()) {
      // The tree is running: this also finds what it has opened during the scan.
      tree.stream()
          .flatMap(pid -> ProcFs.visibleFiles(pid).stream())
          .forEach(file -> SocketTables.inode(file.target()).ifPresent(inside::add));
    }
    suspects.forEach(
        (each, socket) -> {
          if (leadsOutside(socket, inside, unix)) {
            report(each.place(), socket, unix);
          }
        });
  }

  /** Returns whether no process of the tree has the other end open. */
  private static boolean leadsOutside(
      UnixSocket socket, Set<Long> inside, Map<Long, UnixSocket> unix) {
    if (socket.peer() != 0) {
      return !inside.contains(socket.peer());
    }
    // It has not been accepted yet: its other end belongs to its listener.
    return socket.connected()
        && unix.values().stream()
            .anyMatch(
                each -> each.waiting().contains(socket.inode()) && !inside.contains(each.inode()));
  }

  /** A restore cannot connect a socket again whose other end was not accepted at the dump. */
  private boolean isAllowed(UnixSocket socket, Map<Long, UnixSocket> unix) {
    return socket.peer() != 0 && isExternal(socket, unix);
  }

  private boolean isExternal(UnixSocket socket, Map<Long, UnixSocket> unix) {
    return options.criu().get(CriuSwitch.EXTERNAL).contains(External.unixSocket(socket.inode()))
        || (options.criu().has(CriuSwitch.EXT_UNIX_SK) && sendsToName(socket, unix));
  }

  /** CRIU reconnects a datagram socket if its peer has a name. */
  private static boolean sendsToName(UnixSocket socket, Map<Long, UnixSocket> unix) {
    UnixSocket peer = unix.get(socket.peer());
    return socket.isDatagram() && (peer == null || !peer.name().isEmpty());
  }

  private void report(ResourceRef place, UnixSocket socket, Map<Long, UnixSocket> unix) {
    String name =
        "unix %s socket %s"
            .formatted(socket.isDatagram() ? "datagram" : "stream", socket.name())
            .strip();
    if (socket.peer() == 0) {
      findings.problem(
          Kind.UNIX_SOCKET,
          place,
          name,
          "is connected to a listener outside of this tree that has not accepted it, and a restore"
              + " cannot connect it again",
          "try again when the listener has accepted it, or end the listener");
      return;
    }
    String holder = Outsiders.holder("socket:[" + socket.peer() + "]", tree);
    findings.needs(
        Kind.UNIX_SOCKET,
        place,
        name,
        "is connected to " + (holder.isEmpty() ? "a process" : holder) + " outside of this tree",
        sendsToName(socket, unix)
            ? "ext-unix-sk"
            : "external=" + External.unixSocket(socket.inode()).text());
  }
}
