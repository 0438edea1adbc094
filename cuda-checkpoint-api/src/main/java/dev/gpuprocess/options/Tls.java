package dev.gpuprocess.options;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * How a connection that memory pages travel on is kept secret, and who may be at its other end
 * (CRIU {@code tls}). Both ends need it, and each compares the other's certificate with the address
 * it was given, the server with the one it listens on.
 *
 * @param authority who has signed the other's certificate, a PEM file (CRIU {@code tls-cacert});
 *     null for those that the system trusts
 * @param revocations certificates that are no longer good (CRIU {@code tls-cacrl}); null for CRIU's
 *     own place
 * @param certificate the own certificate (CRIU {@code tls-cert}); null for CRIU's own place
 * @param key its private key (CRIU {@code tls-key}); null for CRIU's own place
 * @param nameChecked whether the other's certificate must name that address (CRIU {@code
 *     tls-no-cn-verify} when false)
 */
public record Tls(
    @Nullable Path authority,
    @Nullable Path revocations,
    @Nullable Path certificate,
    @Nullable Path key,
    boolean nameChecked) {

  /** What the system trusts, and the own certificate in CRIU's own place. */
  public static final Tls OF_SYSTEM = new Tls(null, null, null, null, true);

  /**
   * Makes the paths absolute, as CRIU works in another directory.
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
   * Files of one's own.
   *
   * @param authority who has signed the other's certificate
   * @param certificate the own certificate
   * @param key its private key
   * @return with the name checked, without revocations
   */
  public static Tls of(Path authority, Path certificate, Path key) {
    return new Tls(authority, null, certificate, key, true);
  }

  /**
   * With certificates that are no longer good.
   *
   * @param revocations a list in PEM, signed by the authority
   * @return a copy
   */
  public Tls withRevocations(Path revocations) {
    return new Tls(authority, revocations, certificate, key, nameChecked);
  }

  /**
   * For certificates that do not name an address: whoever has one of this authority is let in.
   *
   * @return a copy
   */
  public Tls withoutNameCheck() {
    return new Tls(authority, revocations, certificate, key, false);
  }
}
