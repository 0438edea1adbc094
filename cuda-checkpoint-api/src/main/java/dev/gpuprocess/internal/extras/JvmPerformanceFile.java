package dev.gpuprocess.internal.extras;

import dev.gpuprocess.internal.linux.Credentials;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The file in which a JVM keeps its counters, {@code /tmp/hsperfdata_USER/PID}. The JVM maps the
 * file. Every other JVM that starts removes the files of pids that do not exist, including the file
 * of a dumped JVM, whose restore would fail without it.
 *
 * @param path the path
 * @param user the user of the JVM, who owns the file
 * @param group the group of the JVM
 * @param content the content
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
public record JvmPerformanceFile(Path path, int user, int group, byte[] content) {

  private static final Pattern NAME = Pattern.compile("/(?:[^/]+/)*hsperfdata_[^/]+/[1-9]\\d{0,9}");
  private static final Pattern TEXT =
      Pattern.compile("jvm (\\d{1,10}) (\\d{1,10}) ([0-9a-f]{2,2000}) ([0-9a-f]*)");
  private static final int MOST_BYTES = 1 << 20;

  /**
   * Reads the file of a process, with the permissions of the process.
   *
   * @return empty when the process is not a JVM, has no such file, sees another file at that path,
   *     or does not own the file
   * @throws IOException when it cannot be read
   */
  public static Optional<JvmPerformanceFile> of(int pid) throws IOException {
    for (Mapping mapping : ProcFs.memory(pid)) {
      if (NAME.matcher(mapping.name()).matches()) {
        Optional<Credentials> user = Credentials.of(pid);
        return user.isEmpty() ? Optional.empty() : of(mapping, user.get());
      }
    }
    return Optional.empty();
  }

  private static Optional<JvmPerformanceFile> of(Mapping mapping, Credentials user)
      throws IOException {
    Path path = NativePath.of(mapping.name());
    return UntrustedPaths.as(
        user,
        UntrustedPaths.PATIENCE,
        paths -> {
          Optional<OpenedFile> opened = paths.read(path);
          if (opened.isEmpty()) {
            return Optional.empty();
          }
          try (OpenedFile file = opened.get()) {
            FileNode node = file.node();
            boolean isTheirs = node.inode() == mapping.inode() && node.user() == user.user();
            return isTheirs && node.bytes() <= MOST_BYTES
                ? Optional.of(
                    new JvmPerformanceFile(path, user.user(), user.group(), file.read(MOST_BYTES)))
                : Optional.empty();
          }
        });
  }

  /**
   * Writes the file if it is missing, with the permissions of the user of the JVM.
   *
   * @return the file, if it was written
   * @throws IOException when it could not be written
   */
  Optional<FileNode> putBack() throws IOException {
    return UntrustedPaths.as(owner(), UntrustedPaths.PATIENCE, this::putBack);
  }

  private Optional<FileNode> putBack(UntrustedPaths paths) throws IOException {
    Path directory = Objects.requireNonNull(path.getParent());
    boolean unused = paths.makeDirectory(directory);
    Optional<OpenedFile> there = paths.hold(path);
    if (there.isPresent()) {
      there.get().close();
      return Optional.empty();
    }
    try (OpenedFile made = paths.create(path)) {
      try {
        made.replace(new ByteArrayInputStream(content));
        return Optional.of(made.node());
      } catch (IOException e) {
        paths.remove(path, made.node());
        throw e;
      }
    }
  }

  /** Removes the file that {@link #putBack} has written. */
  void remove(FileNode made) throws IOException {
    boolean unused =
        UntrustedPaths.as(
            owner(),
            UntrustedPaths.PATIENCE,
            paths -> {
              paths.remove(path, made);
              return true;
            });
  }

  private Credentials owner() {
    return new Credentials(user, group, List.of());
  }

  /**
   * Parses the text of {@link #toString}.
   *
   * @return empty when the line is something else
   */
  public static Optional<JvmPerformanceFile> parse(String line) {
    Matcher text = TEXT.matcher(line);
    if (!text.matches() || text.group(3).length() % 2 != 0 || text.group(4).length() % 2 != 0) {
      return Optional.empty();
    }
    String path = new String(HexFormat.of().parseHex(text.group(3)), StandardCharsets.UTF_8);
    return NAME.matcher(path).matches() && !path.contains("/../") && path.indexOf('\0') < 0
        ? Optional.of(
            new JvmPerformanceFile(
                NativePath.of(path),
                Integer.parseUnsignedInt(text.group(1)),
                Integer.parseUnsignedInt(text.group(2)),
                HexFormat.of().parseHex(text.group(4))))
        : Optional.empty();
  }

  /** Returns one line for an image. */
  @Override
  public String toString() {
    HexFormat hex = HexFormat.of();
    return "jvm %s %s %s %s"
        .formatted(
            Integer.toUnsignedString(user),
            Integer.toUnsignedString(group),
            hex.formatHex(NativePath.bytes(path)),
            hex.formatHex(content));
  }
}
