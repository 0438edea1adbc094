package dev.gpuprocess.internal.wire;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CRL;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What PEM files hold. */
final class Pem {

  private static final Pattern KEY =
      Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END PRIVATE KEY-----");

  private static final List<String> ALGORITHMS = List.of("EC", "RSA", "Ed25519");

  private Pem() {}

  static Collection<? extends Certificate> certificates(Path file)
      throws IOException, GeneralSecurityException {
    try (InputStream in = Files.newInputStream(file)) {
      return CertificateFactory.getInstance("X.509").generateCertificates(in);
    }
  }

  static Collection<? extends CRL> revocations(Path file)
      throws IOException, GeneralSecurityException {
    try (InputStream in = Files.newInputStream(file)) {
      return CertificateFactory.getInstance("X.509").generateCRLs(in);
    }
  }

  static PrivateKey key(Path file) throws IOException, GeneralSecurityException {
    Matcher found = KEY.matcher(Files.readString(file, StandardCharsets.US_ASCII));
    if (!found.find()) {
      throw new InvalidKeySpecException(
          file
              + " has no key in the form BEGIN PRIVATE KEY: convert it (openssl pkcs8 -topk8 -nocrypt)");
    }
    PKCS8EncodedKeySpec encoded =
        new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(found.group(1)));
    for (String algorithm : ALGORITHMS) {
      Optional<PrivateKey> key = key(algorithm, encoded);
      if (key.isPresent()) {
        return key.get();
      }
    }
    throw new InvalidKeySpecException(file + " has a key that is none of " + ALGORITHMS);
  }

  /** Empty when it is one of another algorithm. */
  private static Optional<PrivateKey> key(String algorithm, PKCS8EncodedKeySpec encoded)
      throws GeneralSecurityException {
    try {
      return Optional.of(KeyFactory.getInstance(algorithm).generatePrivate(encoded));
    } catch (InvalidKeySpecException other) {
      return Optional.empty();
    }
  }
}
