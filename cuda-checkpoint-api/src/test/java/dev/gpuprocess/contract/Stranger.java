package dev.gpuprocess.contract;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * An unprivileged user with a directory, beside a directory that only root can enter. Needs root
 * and {@code setpriv}.
 */
public final class Stranger implements AutoCloseable {

  /** The user and the group; {@code nobody} on every Linux. */
  public static final int ID = 65_534;

  /** The content of {@link #secret}, 4096 bytes long. */
  public static final String SECRET = "root's own\n".repeat(373).substring(0, 4096);

  private static final Path PLACE = Path.of("/tmp");

  private final Path directory;

  private Stranger(Path directory) {
    this.directory = directory;
  }

  /** Makes the directories. */
  public static Stranger create() {
    try {
      Stranger made = new Stranger(Files.createTempDirectory(PLACE, "stranger"));
      mode(made.directory, "rwxr-xr-x");
      made.give(Files.createDirectory(made.home()));
      mode(made.home(), "rwxr-xr-x");
      mode(Files.createDirectory(made.vault()), "rwx------");
      mode(Files.writeString(made.secret(), SECRET), "rw-------");
      return made;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void mode(Path path, String permissions) throws IOException {
    Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
  }

  /** The directory of the user. */
  public Path home() {
    return directory.resolve("home");
  }

  /** A directory that only root can enter. */
  public Path vault() {
    return directory.resolve("vault");
  }

  /** A file in the vault that only root can read. */
  public Path secret() {
    return vault().resolve("secret");
  }

  /** Gives a file, a directory or a link to the user. */
  public Path give(Path path) throws IOException {
    Files.setAttribute(path, "unix:uid", ID, LinkOption.NOFOLLOW_LINKS);
    Files.setAttribute(path, "unix:gid", ID, LinkOption.NOFOLLOW_LINKS);
    return path;
  }

  /** The names in the vault, besides that of the secret. */
  public List<Path> intruders() throws IOException {
    try (Stream<Path> files = Files.list(vault())) {
      return files.filter(file -> !file.equals(secret())).toList();
    }
  }

  /** A command that runs another one as the user. */
  public static List<String> command(String... command) {
    List<String> all = new ArrayList<>();
    Collections.addAll(all, "setpriv", "--reuid=" + ID, "--regid=" + ID, "--clear-groups", "--");
    Collections.addAll(all, command);
    return all;
  }

  /** Runs a shell script as the user, to its end. */
  public void run(String script, Object... arguments) {
    try {
      Process shell = start(script, arguments);
      boolean ended = shell.waitFor(180, TimeUnit.SECONDS);
      if (!ended || shell.exitValue() != 0) {
        shell.destroyForcibly();
        throw new AssertionError(script + (ended ? ": exit " + shell.exitValue() : " hangs"));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError(e);
    }
  }

  /** Starts a shell script as the user; its arguments are {@code $0} and so on. */
  public Process start(String script, Object... arguments) throws IOException {
    List<String> all = command("sh", "-c", script);
    for (Object argument : arguments) {
      all.add(argument.toString());
    }
    return new ProcessBuilder(all).directory(home().toFile()).inheritIO().start();
  }

  /** Removes the directories, also while a script that was killed moves files in them. */
  @Override
  public void close() {
    await().atMost(30, TimeUnit.SECONDS).ignoreExceptions().until(this::isRemoved);
  }

  private boolean isRemoved() throws IOException {
    if (Files.exists(directory)) {
      try (Stream<Path> files = Files.walk(directory)) {
        for (Path file : files.sorted(Collections.reverseOrder()).toList()) {
          Files.deleteIfExists(file);
        }
      }
    }
    return Files.notExists(directory);
  }
}
