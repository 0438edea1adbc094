package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SocketTables;
import dev.gpuprocess.internal.proc.TcpSocket;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.report.Finding.Severity;
import java.io.IOException;
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
        }
      }
    }
    lookAtUnix(held, unix);
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
      if (socket != null && !isAllowed(socket, unix) && leadsOutside(socket, inside, unix)) {
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

  private boolean isAllowed(UnixSocket socket, Map<Long, UnixSocket> unix) {
    return options.criu().get(CriuSwitch.EXTERNAL).contains(External.unixSocket(socket.inode()))
        || (options.criu().has(CriuSwitch.EXT_UNIX_SK) && sendsToName(socket, unix));
  }

  /** CRIU reconnects a datagram socket if its peer has a name. */
  private static boolean sendsToName(UnixSocket socket, Map<Long, UnixSocket> unix) {
    UnixSocket peer = unix.get(socket.peer());
    return socket.isDatagram() && (peer == null || !peer.name().isEmpty());
  }

  private void report(ResourceRef place, UnixSocket socket, Map<Long, UnixSocket> unix) {
    String holder =
        socket.peer() == 0 ? "" : Outsiders.holder("socket:[" + socket.peer() + "]", tree);
    findings.needs(
        Kind.UNIX_SOCKET,
        place,
        "unix %s socket %s"
            .formatted(socket.isDatagram() ? "datagram" : "stream", socket.name())
            .strip(),
        "is connected to " + (holder.isEmpty() ? "a process" : holder) + " outside of this tree",
        sendsToName(socket, unix)
            ? "ext-unix-sk"
            : "external=" + External.unixSocket(socket.inode()).text());
  }
}
