package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.Credentials;
import dev.gpuprocess.internal.linux.DirectoryTrust;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A file of this library that a launched process has mapped: the library with the fork handler, or
 * the program that takes requests. CRIU maps it again by its path, but it does not exist on another
 * host, and may have been removed: so an image includes it. The socket for requests is beside it.
 */
public final class CarriedNativeFile {

  private static final Pattern NAME =
      Pattern.compile(
          "/(?:[^/]+/)*(?:\\.cache/gpuprocess/native|gpuprocess-native-[^/]+)/gpuprocess-(?:fork-handler-([0-9a-f]{32})\\.so|job-([0-9a-f]{32}))");
  private static final Pattern TEXT =
      Pattern.compile("library ([0-9a-f]{2,8192}) ([0-9a-f]{2,2097152})");
  private static final int MOST_BYTES = 1 << 20;

  private final NativeFile file;

  private CarriedNativeFile(NativeFile file) {
    this.file = file;
  }

  /**
   * Reads the file that a process has mapped, with the permissions of the process.
   *
   * @return empty if it has mapped none, or the file was replaced
   * @throws IOException when it cannot be read
   */
  public static Optional<CarriedNativeFile> of(int pid) throws IOException {
    for (Mapping mapping : ProcFs.memory(pid)) {
      if (NAME.matcher(mapping.name()).matches()) {
        Optional<CarriedNativeFile> ours = ours(NativePath.of(mapping.name()));
        Optional<Credentials> user = Credentials.of(pid);
        return ours.isPresent() || user.isEmpty() ? ours : read(mapping.name(), user.get());
      }
    }
    return Optional.empty();
  }

  /** A file of this version is not read: a process that changed its user may not read it. */
  private static Optional<CarriedNativeFile> ours(Path path) throws IOException {
    Path directory = Objects.requireNonNull(path.getParent());
    for (String name : List.of(NativeFile.LAUNCHER, NativeFile.FORK_HANDLER)) {
      NativeFile file = NativeFile.of(directory, name);
      if (file.path().equals(path)) {
        return Optional.of(new CarriedNativeFile(file));
      }
    }
    return Optional.empty();
  }

  private static Optional<CarriedNativeFile> read(String name, Credentials user)
      throws IOException {
    return UntrustedPaths.as(
        user,
        UntrustedPaths.PATIENCE,
        paths -> {
          Optional<OpenedFile> opened = paths.read(NativePath.of(name));
          if (opened.isEmpty()) {
            return Optional.empty();
          }
          try (OpenedFile file = opened.get()) {
            return file.node().bytes() <= MOST_BYTES
                ? checked(name, file.read(MOST_BYTES))
                : Optional.empty();
          }
        });
  }

  /** Accepts only a content that has the checksum in the name. */
  private static Optional<CarriedNativeFile> checked(String path, byte[] content) {
    Matcher name = NAME.matcher(path);
    return name.matches()
            && NativeFile.sum(content).equals(sum(name))
            && !path.contains("/../")
            && path.indexOf('\0') < 0
        ? Optional.of(new CarriedNativeFile(new NativeFile(NativePath.of(path), content)))
        : Optional.empty();
  }

  private static String sum(Matcher name) {
    return name.group(1) == null ? name.group(2) : name.group(1);
  }

  /**
   * Installs the file again if it was removed. The process chose the path, and the content of a
   * file that is not of this version: such a file is installed only in a directory that is there.
   *
   * @throws IOException when it cannot be installed, or other users could replace it
   */
  public void putBack() throws IOException {
    if (!Files.exists(file.path(), LinkOption.NOFOLLOW_LINKS)) {
      if (ours(file.path()).isEmpty()) {
        DirectoryTrust.require(Objects.requireNonNull(file.path().getParent()));
      }
      file.install();
    }
  }

  /** Returns its path. */
  public Path path() {
    return file.path();
  }

  /**
   * Reads a line that {@link #toString} wrote.
   *
   * @return empty for any other line
   */
  public static Optional<CarriedNativeFile> parse(String line) {
    Matcher text = TEXT.matcher(line);
    if (!text.matches() || text.group(1).length() % 2 != 0 || text.group(2).length() % 2 != 0) {
      return Optional.empty();
    }
    HexFormat hex = HexFormat.of();
    return checked(
        new String(hex.parseHex(text.group(1)), StandardCharsets.UTF_8),
        hex.parseHex(text.group(2)));
  }

  /** Returns the file as one line of text. */
  @Override
  public String toString() {
    HexFormat hex = HexFormat.of();
    return "library %s %s"
        .formatted(hex.formatHex(NativePath.bytes(file.path())), hex.formatHex(file.content()));
  }
}
