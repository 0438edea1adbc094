package dev.gpuprocess.internal.proc;

/**
 * A TCP socket as {@code /proc/PID/net/tcp} shows it.
 *
 * @param inode as in {@code socket:[N]}
 * @param state the kernel's number: 1 established, 10 listening
 * @param local address and port, such as {@code 127.0.0.1:80}
 * @param remote the same for the other end
 * @param waiting bytes not read yet; for a listener, connections not accepted yet
 */
public record TcpSocket(long inode, int state, String local, String remote, long waiting) {

  private static final int SYN_RECEIVED = 3;
  private static final int TIME_WAIT = 6;
  private static final int CLOSED = 7;
  private static final int LISTENING = 10;

  /** Returns whether it listens for connections. */
  public boolean isListening() {
    return state == LISTENING;
  }

  /** Returns whether it is connected, from the first SYN to the last ACK. */
  public boolean isConnected() {
    return state != SYN_RECEIVED && state != TIME_WAIT && state != CLOSED && !isListening();
  }
}
