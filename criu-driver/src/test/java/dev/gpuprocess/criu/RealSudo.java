package dev.gpuprocess.criu;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Assumptions;

/**
 * The machine's own sudo, with a user and rules that only the processes of one mount namespace see.
 * Nothing of the machine is changed, and with the namespace all of it is gone.
 */
final class RealSudo {

  private static final String FIXED = "--no-default-config -L /proc/self/fdinfo swrk 0";

  private final AnotherUser user;
  private final Path files;

  private RealSudo(AnotherUser user, Path files) {
    this.user = user;
    this.files = files;
  }

  /**
   * Writes the files that replace those of the machine, or aborts the test without sudo.
   *
   * @param defaults of sudoers, such as {@code use_pty}
   * @param allowed what the user may run CRIU by
   */
  static RealSudo of(AnotherUser user, String defaults, List<Path> allowed) {
    Assumptions.assumeTrue(Files.isExecutable(Path.of("/usr/bin/sudo")), "sudo is not installed");
    try {
      Path files = Files.createTempDirectory(user.directory(), "etc");
      String name = "gpuprocess-" + AnotherUser.ID;
      add(
          files,
          "passwd",
          "%s:x:%2$d:%2$d::/:/bin/sh".formatted(name, AnotherUser.ID),
          "rw-r--r--");
      add(files, "group", "%s:x:%d:".formatted(name, AnotherUser.ID), "rw-r--r--");
      add(files, "shadow", name + ":*:19000:0:99999:7:::", "rw-r-----");
      StringBuilder rules = new StringBuilder("Defaults env_reset, %s%n".formatted(defaults));
      for (Path program : allowed) {
        rules.append("%s ALL=(root) NOPASSWD: %s %s%n".formatted(name, program, FIXED));
      }
      Files.writeString(files.resolve("sudoers"), rules);
      give(files.resolve("sudoers"), "r--r-----");
      give(files, "rwxr-xr-x");
      RealSudo sudo = new RealSudo(user, files);
      Assumptions.assumeTrue(
          allowed.isEmpty() || sudo.works(), "sudo refuses a user that does not exist");
      return sudo;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void add(Path files, String name, String line, String mode) throws IOException {
    Path file = files.resolve(name);
    Files.writeString(file, Files.readString(Path.of("/etc", name)) + line + "\n");
    give(file, mode);
  }

  private static void give(Path file, String mode) throws IOException {
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(mode));
  }

  private boolean works() {
    ProgramRun.Ended list =
        ProgramRun.of(inside(AnotherUser.asUser(List.of("sudo", "-n", "-l")))).run();
    return list.exit() == 0 || list.printed().contains("must have a tty");
  }

  /** The same command in the namespace. */
  private List<String> inside(List<String> command) {
    String mounts =
        "for name in passwd group shadow sudoers; do mount --bind \"$0/$name\" /etc/$name || exit 99;"
            + " done; exec \"$@\"";
    List<String> line = new ArrayList<>(List.of("unshare", "--mount", "--propagation", "private"));
    line.addAll(List.of("/bin/sh", "-c", mounts, files.toString()));
    line.addAll(command);
    return line;
  }

  /** Returns a builder that starts a main class of the tests as the user. */
  ProcessBuilder jvm(Class<?> main, List<String> properties) {
    ProcessBuilder builder = user.jvm(main, properties);
    return builder.command(inside(builder.command()));
  }
}
