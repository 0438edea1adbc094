package dev.gpuprocess.internal.wire;

import dev.gpuprocess.options.Tls;
import java.io.IOException;
import java.net.Socket;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertStore;
import java.security.cert.Certificate;
import java.security.cert.CollectionCertStoreParameters;
import java.security.cert.PKIXBuilderParameters;
import java.security.cert.X509CertSelector;
import javax.net.ssl.CertPathTrustManagerParameters;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import org.jspecify.annotations.Nullable;

/** TLS over connected sockets, with the certificates of both ends. */
final class TlsSockets {

  private static final char[] NO_PASSWORD = {};

  private final SSLContext context;
  private final boolean nameChecked;

  private TlsSockets(SSLContext context, boolean nameChecked) {
    this.context = context;
    this.nameChecked = nameChecked;
  }

  /**
   * Reads the files.
   *
   * @throws IOException when one cannot be used
   */
  static TlsSockets of(Tls tls) throws IOException {
    try {
      Path certificate = tls.certificate();
      Path key = tls.key();
      if (certificate == null || key == null) {
        throw new IOException("a migration over TLS needs a certificate and its key: name both");
      }
      KeyStore own = empty();
      own.setKeyEntry(
          "own",
          Pem.key(key),
          NO_PASSWORD,
          Pem.certificates(certificate).toArray(Certificate[]::new));
      KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
      keys.init(own, NO_PASSWORD);
      SSLContext context = SSLContext.getInstance("TLSv1.3");
      context.init(keys.getKeyManagers(), trusted(tls), null);
      return new TlsSockets(context, tls.nameChecked());
    } catch (GeneralSecurityException e) {
      throw new IOException("TLS cannot be used as it is set: " + e.getMessage(), e);
    }
  }

  private static KeyStore empty() throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, NO_PASSWORD);
    return store;
  }

  private static TrustManager @Nullable [] trusted(Tls tls)
      throws IOException, GeneralSecurityException {
    Path authority = tls.authority();
    if (authority == null) {
      if (tls.revocations() != null) {
        throw new IOException("a list of revocations needs the authority that signed it: name it");
      }
      return null;
    }
    KeyStore store = empty();
    for (Certificate each : Pem.certificates(authority)) {
      store.setCertificateEntry("authority " + store.size(), each);
    }
    PKIXBuilderParameters rules = new PKIXBuilderParameters(store, new X509CertSelector());
    Path revocations = tls.revocations();
    rules.setRevocationEnabled(revocations != null);
    if (revocations != null) {
      rules.addCertStore(
          CertStore.getInstance(
              "Collection", new CollectionCertStoreParameters(Pem.revocations(revocations))));
    }
    TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
    factory.init(new CertPathTrustManagerParameters(rules));
    return factory.getTrustManagers();
  }

  /**
   * The end that connected; compares the other's certificate with the name that it connected to.
   */
  SSLSocket connected(Socket raw, String host) throws IOException {
    SSLSocket socket =
        (SSLSocket) context.getSocketFactory().createSocket(raw, host, raw.getPort(), true);
    if (nameChecked) {
      SSLParameters parameters = socket.getSSLParameters();
      parameters.setEndpointIdentificationAlgorithm("HTTPS");
      socket.setSSLParameters(parameters);
    }
    return socket;
  }

  /** The end that listened; the other must have a certificate of the authority. */
  SSLSocket accepted(Socket raw) throws IOException {
    SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(raw, null, true);
    socket.setNeedClientAuth(true);
    return socket;
  }
}
