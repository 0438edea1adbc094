package dev.gpuprocess.options;

import org.jspecify.annotations.Nullable;

/**
 * The address that memory pages are sent to or fetched from. Immutable.
 *
 * @param host a name or an address (CRIU {@code address})
 * @param port a TCP port (CRIU {@code port}); 0 for any free port, where listening
 * @param tls how the connection is secured; null for no security: everybody on the path can read
 *     the memory
 */
public record PageEndpoint(String host, int port, @Nullable Tls tls) {

  private static final int LAST_PORT = 0xffff;

  /**
   * Checks the form.
   *
   * @throws IllegalArgumentException when the host or the port is impossible
   */
  public PageEndpoint {
    if (host.isBlank() || host.chars().anyMatch(c -> Character.isWhitespace(c) || c == 0)) {
      throw new IllegalArgumentException(
          "this is not the name or address of a host: '" + host + "'");
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
