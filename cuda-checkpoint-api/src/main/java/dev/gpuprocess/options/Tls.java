package dev.gpuprocess.options;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Encryption and authentication of a connection that carries memory pages (CRIU {@code tls}). Both
 * ends need it. The client compares the server's certificate with the address it connects to, the
 * server compares the client's with the address it listens on. Immutable.
 *
 * @param authority a PEM file with the authority that signed the peer's certificate (CRIU {@code
 *     tls-cacert}); null for those that the system trusts
 * @param revocations a list of revoked certificates (CRIU {@code tls-cacrl}); null for CRIU's
 *     default location
 * @param certificate our certificate (CRIU {@code tls-cert}); null for CRIU's default location
 * @param key its private key (CRIU {@code tls-key}); null for CRIU's default location
 * @param nameChecked whether the peer's certificate must name that address (CRIU {@code
 *     tls-no-cn-verify} when false)
 */
public record Tls(
    @Nullable Path authority,
    @Nullable Path revocations,
    @Nullable Path certificate,
    @Nullable Path key,
    boolean nameChecked) {

  /** The authorities that the system trusts, and our certificate in CRIU's default location. */
  public static final Tls OF_SYSTEM = new Tls(null, null, null, null, true);

  /**
   * Makes the paths absolute, because CRIU works in another directory.
   *
   * @throws IllegalArgumentException for a certificate without its key, or the other way round
   */
  public Tls {
    if ((certificate == null) != (key == null)) {
      throw new IllegalArgumentException("a certificate and its private key go together");
    }
    authority = absolute(authority);
    revocations = absolute(revocations);
    certificate = absolute(certificate);
    key = absolute(key);
  }

  private static @Nullable Path absolute(@Nullable Path path) {
    return path == null ? null : path.toAbsolutePath();
  }

  /**
   * Uses the given files.
   *
   * @param authority the authority that signed the peer's certificate
   * @param certificate our certificate
   * @param key its private key
   * @return the settings, with the name checked and without revocations
   */
  public static Tls of(Path authority, Path certificate, Path key) {
    return new Tls(authority, null, certificate, key, true);
  }

  /**
   * Adds a list of revoked certificates.
   *
   * @param revocations a PEM file, signed by the authority
   * @return a copy
   */
  public Tls withRevocations(Path revocations) {
    return new Tls(authority, revocations, certificate, key, nameChecked);
  }

  /**
   * Accepts certificates that do not name the address: any client with a certificate of this
   * authority is admitted.
   *
   * @return a copy
   */
  public Tls withoutNameCheck() {
    return new Tls(authority, revocations, certificate, key, false);
  }
}
