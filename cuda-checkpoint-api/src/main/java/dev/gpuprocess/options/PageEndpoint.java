package dev.gpuprocess.options;

import org.jspecify.annotations.Nullable;

/**
 * Where memory pages are sent to, or fetched from.
 *
 * @param host a name or an address (CRIU {@code address})
 * @param port a TCP port (CRIU {@code port}); 0 for any, where one listens
 * @param tls how the connection is secured; null for not at all, so that everybody on the way reads
 *     the memory
 */
public record PageEndpoint(String host, int port, @Nullable Tls tls) {

  private static final int LAST_PORT = 0xffff;

  /**
   * Checks that there can be such an address.
   *
   * @throws IllegalArgumentException when there cannot
   */
  public PageEndpoint {
    if (host.isBlank() || host.chars().anyMatch(c -> Character.isWhitespace(c) || c == 0)) {
      throw new IllegalArgumentException("pages cannot travel to the host '" + host + "'");
    }
    if (port < 0 || port > LAST_PORT) {
      throw new IllegalArgumentException("a port is between 0 and 65535, not " + port);
    }
  }

  /**
   * Without TLS.
   *
   * @param host a name or an address
   * @param port a TCP port
   */
  public PageEndpoint(String host, int port) {
    this(host, port, null);
  }

  /** {@return host and port} */
  @Override
  public String toString() {
    return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
  }
}
