package dev.gpuprocess.criu;

import dev.gpuprocess.options.Tls;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Assumptions;

/** An authority for one test, and what it signs. Needs openssl. */
final class Certificates {

  private static final String DAYS = "2";

  private final Path directory;

  private Certificates(Path directory) {
    this.directory = directory;
  }

  /** Makes one, or skips the test. */
  static Certificates authority(Path directory) {
    try {
      Command.run("openssl", "version");
    } catch (UncheckedIOException e) {
      Assumptions.abort("openssl is not installed");
    }
    Certificates authority = new Certificates(directory);
    authority.request("authority", "-x509", "-days", DAYS, "-out", authority.file("authority.crt"));
    return authority;
  }

  /** A certificate that names addresses, with its key and the authority. */
  Tls issue(String name, String... addresses) {
    String names = Arrays.stream(addresses).map("IP:"::concat).collect(Collectors.joining(","));
    try {
      Files.writeString(directory.resolve(name + ".ext"), "subjectAltName=" + names);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    request(name, "-out", file(name + ".csr"));
    Command.run(
        "openssl",
        "x509",
        "-req",
        "-days",
        DAYS,
        "-in",
        file(name + ".csr"),
        "-CA",
        file("authority.crt"),
        "-CAkey",
        file("authority.key"),
        "-CAcreateserial",
        "-extfile",
        file(name + ".ext"),
        "-out",
        file(name + ".crt"));
    return Tls.of(
        directory.resolve("authority.crt"),
        directory.resolve(name + ".crt"),
        directory.resolve(name + ".key"));
  }

  private void request(String name, String... more) {
    String[] common = {
      "openssl",
      "req",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-subj",
      "/CN=" + name,
      "-keyout",
      file(name + ".key")
    };
    String[] all = Arrays.copyOf(common, common.length + more.length);
    System.arraycopy(more, 0, all, common.length, more.length);
    Command.run(all);
  }

  private String file(String name) {
    return directory.resolve(name).toString();
  }
}
