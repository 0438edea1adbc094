package dev.gpuprocess.criu;

import static java.nio.file.LinkOption.NOFOLLOW_LINKS;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/**
 * A user that is not root, with a program that runs commands as root for this user alone, as sudo
 * would. Needs root, {@code setpriv} and gcc.
 */
final class AnotherUser implements AutoCloseable {

  /**
   * No user of this machine has this id, so no one gets the rights of what a killed test leaves.
   */
  static final int ID = FreeId.choose();

  private static final String PREFIX = "gpuprocess-user-";

  // Below a temporary directory of the tests this user might not come.
  private static final Path PLACE = Path.of("/tmp");

  private final Path directory;

  private AnotherUser(Path directory) {
    this.directory = directory;
  }

  /** Creates the user's directory, or aborts the test if no other user can be created. */
  static AnotherUser create() {
    Assumptions.assumeTrue(CurrentUser.isRoot(), "not root, so no other user can be created");
    AnotherUser user;
    try {
      removeAbandoned();
      ProcessIdentity self = ProcessIdentity.of(ProcessHandle.current().pid()).orElseThrow();
      String name = PREFIX + self.pid() + "-" + self.startTicks() + "-";
      user = new AnotherUser(Files.createTempDirectory(PLACE, name));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    boolean usable = false;
    try {
      user.furnish();
      usable = true;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } finally {
      if (!usable) {
        user.close();
      }
    }
    return user;
  }

  /** Removes what killed tests left, including a program that grants root's rights. */
  private static void removeAbandoned() throws IOException {
    try (DirectoryStream<Path> left = Files.newDirectoryStream(PLACE, PREFIX + "*")) {
      for (Path directory : left) {
        String[] words = directory.getFileName().toString().split("-");
        if (!isAtWork(words)) {
          removeIfOurs(directory);
        }
      }
    }
  }

  /** Another JVM of the tests may remove it too. */
  private static void removeIfOurs(Path directory) throws IOException {
    try {
      boolean ours = Files.getAttribute(directory, "unix:uid", NOFOLLOW_LINKS).equals(0);
      if (ours && Files.isDirectory(directory, NOFOLLOW_LINKS)) {
        FileTree.remove(directory);
      }
    } catch (IOException | UncheckedIOException e) {
      if (Files.exists(directory, NOFOLLOW_LINKS)) {
        throw e;
      }
    }
  }

  /** By the pid and start time in the name. */
  private static boolean isAtWork(String[] words) {
    try {
      return new ProcessIdentity(Integer.parseInt(words[2]), Long.parseLong(words[3])).isAlive();
    } catch (NumberFormatException | ArrayIndexOutOfBoundsException e) {
      return true;
    }
  }

  private void furnish() throws IOException {
    give(directory, "rwxr-x---");
    give(compile("like-sudo"), "rwxr-x---");
    ProgramRun.of("chmod", "u+s", likeSudo().toString()).succeed();
    for (String program : List.of("mount", "umount")) {
      String text = "#!/bin/sh\nexec %s %s \"$@\"\n".formatted(likeSudo(), program);
      FakeCriu.write(programs().resolve(program), text);
    }
    Path home = Files.createDirectory(home());
    Files.setAttribute(home, "unix:uid", ID);
    give(home, "rwx------");
    String root = "[ \"$(%s id -u)\" = 0 ]".formatted(likeSudo());
    Assumptions.assumeTrue(
        succeeds("sh", "-c", root),
        "setuid is without effect here: nosuid, noexec or no_new_privs");
    Assumptions.assumeTrue(
        succeeds("test", "-x", TestJvm.java()), () -> "not everybody may run " + TestJvm.java());
  }

  private Path compile(String name, String... options) {
    return TestTools.compile(AnotherUser.class, name, directory, options);
  }

  private static boolean succeeds(String... command) {
    return ProgramRun.of(asUser(List.of(command))).run().exit() == 0;
  }

  private static void give(Path path, String permissions) throws IOException {
    Files.setAttribute(path, "unix:gid", ID);
    Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
  }

  /** The program that runs a command as root. */
  Path likeSudo() {
    return directory.resolve("like-sudo");
  }

  /**
   * Returns the command by which this user runs CRIU.
   *
   * @param criu the command by which root runs it
   */
  String criu(List<String> criu) {
    return likeSudo() + " " + criuAsRoot(criu);
  }

  /** The program that root provides for this user. */
  String criuAsRoot(List<String> criu) {
    return RealCriu.forOtherUsers(directory, criu);
  }

  /** The directory of the user's files and programs. */
  Path directory() {
    return directory;
  }

  /** The directory in which all files belong to the user. */
  Path home() {
    return directory.resolve("home");
  }

  /** Links a program of root's first on the user's path. */
  private Path programs() {
    return directory.resolve("bin");
  }

  static List<String> asUser(List<String> command) {
    List<String> line = new ArrayList<>();
    line.addAll(List.of("setpriv", "--reuid=" + ID, "--regid=" + ID, "--clear-groups", "--"));
    line.addAll(command);
    return line;
  }

  /**
   * Returns a builder that starts a main class of the tests as this user.
   *
   * @param properties properties of the JVM, each with its value
   */
  ProcessBuilder jvm(Class<?> main, List<String> properties) {
    List<String> command = TestJvm.start("-Xmx256m");
    command.add("-Djava.io.tmpdir=" + home());
    properties.forEach(property -> command.add("-D" + property));
    command.addAll(List.of("-cp", classPath(), main.getName()));
    // The user must be able to read root's files.
    List<String> strict = new ArrayList<>(List.of("sh", "-c", "umask 077; exec \"$0\" \"$@\""));
    strict.addAll(command);
    ProcessBuilder builder = new ProcessBuilder(asUser(strict)).directory(home().toFile());
    builder.environment().put("HOME", home().toString());
    builder.environment().remove("GPUPROCESS_STATE_DIR");
    builder.environment().merge("PATH", programs().toString(), (path, first) -> first + ":" + path);
    return builder.redirectError(ProcessBuilder.Redirect.INHERIT);
  }

  /** The class path of this JVM, copied to a place that the user can read. */
  private String classPath() {
    String[] entries = TestJvm.classPath().split(File.pathSeparator);
    List<String> copies = new ArrayList<>();
    for (int i = 0; i < entries.length; i++) {
      Path entry = Path.of(entries[i]);
      if (Files.exists(entry)) {
        Path copy = directory.resolve("class-path").resolve(i + "-" + entry.getFileName());
        if (!Files.exists(copy)) {
          copyTree(entry, copy);
        }
        copies.add(copy.toString());
      }
    }
    return String.join(File.pathSeparator, copies);
  }

  private static void copyTree(Path from, Path to) {
    try (Stream<Path> files = Files.walk(from)) {
      Files.createDirectories(to.getParent());
      for (Path file : files.toList()) {
        Path copy = to.resolve(from.relativize(file).toString());
        Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING);
        boolean directory = Files.isDirectory(file);
        Files.setPosixFilePermissions(
            copy, PosixFilePermissions.fromString(directory ? "rwxr-xr-x" : "rw-r--r--"));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Returns the processes of all users that have this in their arguments. */
  static List<Long> argumentsWith(String part) {
    return ProcessHandle.allProcesses()
        .map(ProcessHandle::pid)
        .filter(pid -> String.join(" ", ProcFs.commandLine(pid)).contains(part))
        .toList();
  }

  /** Removes all that is the user's. */
  @Override
  public void close() {
    FileTree.remove(directory);
  }
}
