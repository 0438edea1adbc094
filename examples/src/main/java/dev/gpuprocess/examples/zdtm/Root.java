package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The root directory of test programs with namespaces of their own, as {@code zdtm.py} makes it:
 * the test directory of CRIU with the libraries of the program, and a {@code /dev}.
 */
final class Root implements AutoCloseable {

  private static final List<String> DIRECTORIES =
      List.of("bin", "sbin", "etc", "lib", "lib64", "dev", "tmp", "usr", "proc", "run");

  /** A line of {@code ldd}: a library with an arrow, or the loader without an arrow. */
  private static final Pattern LIBRARY = Pattern.compile("^\\s+(?:\\S+ => )?(/\\S+) \\(");

  /** A block device that the program {@code mnt_ext_dev} mounts. */
  private static final String EXTERNAL_DEVICE = "ZDTM_MNT_EXT_DEV";

  private final Path directory;
  private final Path devices;
  private final Path parent;

  private Root(Path parent) {
    this.parent = parent;
    this.directory = parent.resolve("root");
    this.devices = parent.resolveSibling("dev");
  }

  /**
   * Makes and mounts the directory.
   *
   * @throws NotHereException if the program needs a file that is not installed
   */
  static Root of(Stage stage, Program program) throws IOException, NotHereException {
    Path top = stage.test().resolveSibling("root");
    Root root = new Root(top.resolve("parent"));
    if (!Files.exists(top)) {
      Files.createDirectories(root.directory);
      makeDirectories(stage.test());
      root.makeDevices();
    }
    // Readable for the start of the program; hide() closes it, because CRIU must not need that.
    open(top);
    open(root.parent);
    command("mount", "--make-private", "--bind", stage.test(), root.directory);
    try {
      copyLibraries(stage.file(program, ""), root.directory);
      for (String alternatives : program.words("deps")) {
        Path needed = first(alternatives);
        copy(needed, root.directory);
        copyLibraries(needed, root.directory);
      }
      return root;
    } catch (IOException | UncheckedIOException | NotHereException e) {
      root.close();
      throw e;
    }
  }

  Path directory() {
    return directory;
  }

  Path devices() {
    return devices;
  }

  /** Makes the directory inaccessible for all users but root. */
  void hide() throws IOException {
    Files.setPosixFilePermissions(parent, PosixFilePermissions.fromString("rwx------"));
  }

  @Override
  public void close() {
    command("umount", "--lazy", directory);
  }

  private static void makeDirectories(Path test) throws IOException {
    // The root of a user namespace makes directories here, as another user of the host.
    open(test, "rwxrwxrwx");
    for (String name : DIRECTORIES) {
      open(Files.createDirectory(test.resolve(name)), "rwxrwxrwx");
    }
    for (String name : List.of("bin", "sbin", "lib", "lib64")) {
      Files.createSymbolicLink(test.resolve("usr").resolve(name), Path.of("..", name));
    }
  }

  private void makeDevices() throws IOException {
    Files.createDirectory(devices);
    command("mount", "-t", "tmpfs", "criu-test-dev", devices);
    open(devices, "rwxrwxrwx");
    open(Files.createDirectory(devices.resolve("pts")));
    open(Files.createDirectory(devices.resolve("net")));
    command("mknod", "-m", "666", devices.resolve("tty"), "c", "5", "0");
    command("mknod", "-m", "666", devices.resolve("null"), "c", "1", "3");
    command("mknod", "-m", "666", devices.resolve("autofs"), "c", "10", "235");
    copyDevice(Path.of("/dev/net/tun"), "net/tun");
    copyDevice(Path.of("/dev/rtc"), "rtc");
    Optional<Path> external = Optional.ofNullable(System.getenv(EXTERNAL_DEVICE)).map(Path::of);
    if (external.isPresent()) {
      copyDevice(external.get(), external.get().getFileName().toString());
    }
  }

  private void copyDevice(Path device, String name) {
    if (Files.exists(device)) {
      command("cp", "--archive", "--dereference", device, devices.resolve(name));
      command("chmod", "666", devices.resolve(name));
    }
  }

  private static Path first(String alternatives) throws NotHereException {
    return Arrays.stream(alternatives.split("\\|"))
        .map(Path::of)
        .filter(Files::exists)
        .findFirst()
        .orElseThrow(
            () ->
                new NotHereException(
                    "needs " + alternatives.split("\\|")[0] + ", which is not installed"));
  }

  private static void copyLibraries(Path program, Path root) throws IOException {
    // For a script ldd prints no library and fails.
    String printed = ProgramRun.of("ldd", program.toString()).in(root).run().printed();
    for (String line : printed.lines().toList()) {
      Matcher library = LIBRARY.matcher(line);
      if (library.find()) {
        copy(Path.of(library.group(1)), root);
      }
    }
  }

  private static void copy(Path file, Path root) throws IOException {
    Path copy = root.resolve(Path.of("/").relativize(file));
    if (!Files.exists(copy, LinkOption.NOFOLLOW_LINKS)) {
      Files.createDirectories(copy.getParent());
      Files.copy(file, copy, StandardCopyOption.COPY_ATTRIBUTES);
    }
  }

  private static void open(Path directory) throws IOException {
    open(directory, "rwxr-xr-x");
  }

  private static void open(Path directory, String mode) throws IOException {
    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString(mode));
  }

  private static void command(Object... words) {
    ProgramRun.of(Arrays.stream(words).map(Object::toString).toList()).in(Path.of("/")).succeed();
  }
}
