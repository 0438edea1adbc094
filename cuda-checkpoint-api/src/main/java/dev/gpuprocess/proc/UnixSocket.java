package dev.gpuprocess.proc;

/**
 * A UNIX socket as {@code /proc/PID/net/unix} shows it. The kernel does not show its other end.
 *
 * @param inode as in {@code socket:[N]}
 * @param type 1 stream, 2 datagram, 5 sequenced packets
 * @param connected whether it is connected
 * @param name its path or abstract name; empty when it has none. An accepted socket has its
 *     listener's.
 */
public record UnixSocket(long inode, int type, boolean connected, String name) {

  private static final int DATAGRAM = 2;

  /**
   * Tells whether it sends datagrams.
   *
   * @return false for a stream or sequenced packets
   */
  public boolean isDatagram() {
    return type == DATAGRAM;
  }
}
