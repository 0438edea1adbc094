package dev.gpuprocess.image;

import dev.gpuprocess.internal.text.Printable;

/**
 * A descriptor of a dumped process.
 *
 * @param descriptor its number
 * @param id the open file behind it; descriptors with one id share its position and flags
 * @param kind what it is
 * @param text what it refers to: a path, or for example {@code tcp 127.0.0.1:80 -> 127.0.0.1:4711
 *     established}
 */
public record DumpedFile(int descriptor, int id, Kind kind, String text) {

  /** The kinds, in the order of CRIU's numbers. */
  public enum Kind {
    /** Something that this library does not know. */
    OTHER,
    /** A file, directory or device with a path. */
    FILE,
    /** One end of a pipe. */
    PIPE,
    /** A named pipe. */
    FIFO,
    /** TCP, UDP, ICMP or raw IP. */
    INET_SOCKET,
    /** A UNIX-domain socket. */
    UNIX_SOCKET,
    /** An event counter. */
    EVENTFD,
    /** An epoll set. */
    EPOLL,
    /** File events. */
    INOTIFY,
    /** Signals. */
    SIGNALFD,
    /** Raw packets of a network interface. */
    PACKET_SOCKET,
    /** A terminal. */
    TERMINAL,
    /** File events, also for whole mounts. */
    FANOTIFY,
    /** A netlink socket, for talking to the kernel. */
    NETLINK_SOCKET,
    /** A namespace. */
    NAMESPACE,
    /** A network tunnel. */
    TUN,
    /** A resource that was declared to be outside the tree. */
    EXTERNAL,
    /** A timer. */
    TIMERFD,
    /** An anonymous file in memory. */
    MEMFD,
    /** A BPF map. */
    BPF_MAP,
    /** A process (pidfd). */
    PIDFD
  }

  @Override
  public String toString() {
    return descriptor + " -> " + Printable.of(text);
  }
}
