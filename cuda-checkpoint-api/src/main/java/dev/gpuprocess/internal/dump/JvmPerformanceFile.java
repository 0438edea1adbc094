package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The file in which a JVM keeps its counters, {@code /tmp/hsperfdata_USER/PID}. The JVM has it
 * mapped, and every other JVM that starts removes those of pids that are not there: also that of a
 * JVM that was dumped, whose restore would fail without it.
 *
 * @param path where it is
 * @param user its owner
 * @param group its group
 * @param content what is in it
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
public record JvmPerformanceFile(Path path, int user, int group, byte[] content) {

  private static final Pattern NAME = Pattern.compile("/(?:[^/]+/)*hsperfdata_[^/]+/[1-9]\\d{0,9}");
  private static final Pattern TEXT =
      Pattern.compile("jvm (\\d{1,10}) (\\d{1,10}) ([0-9a-f]{2,2000}) ([0-9a-f]*)");
  private static final long MOST_BYTES = 1 << 20;

  private static final int OWNER_ONLY = 0600;

  /**
   * Reads that of a process.
   *
   * @param pid the process
   * @return empty when it is no JVM, or one without such a file, or one whose file system is
   *     another
   * @throws IOException when it cannot be read
   */
  public static Optional<JvmPerformanceFile> of(int pid) throws IOException {
    for (Mapping mapping : ProcFs.memory(pid)) {
      if (NAME.matcher(mapping.name()).matches()) {
        Path path = NativePath.of(mapping.name());
        Optional<FileNode> node = FileNode.at(path);
        boolean same = node.filter(n -> n.isRegular() && n.inode() == mapping.inode()).isPresent();
        if (same && node.get().bytes() <= MOST_BYTES) {
          Map<String, Object> owner = Files.readAttributes(path, "unix:uid,gid");
          return Optional.of(
              new JvmPerformanceFile(
                  path, number(owner, "uid"), number(owner, "gid"), Files.readAllBytes(path)));
        }
      }
    }
    return Optional.empty();
  }

  private static int number(Map<String, Object> attributes, String name) {
    return attributes.get(name) instanceof Integer value ? value : -1;
  }

  /**
   * Makes it again if it is not there. Its directory belongs to the user of the JVM, who may try to
   * have something else overwritten: nothing that exists is touched, no link followed.
   *
   * @return whether it was made
   * @throws IOException when it could not be made
   */
  public boolean putBack() throws IOException {
    if (Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
      return false;
    }
    Path parent = Objects.requireNonNull(path.getParent());
    boolean made = ForeignDirectory.make(parent);
    try (ForeignDirectory directory = ForeignDirectory.open(parent)) {
      if (made) {
        directory.give(user, group);
      }
      directory.create(
          Objects.requireNonNull(path.getFileName()), user, group, OWNER_ONLY, content);
      return true;
    }
  }

  /**
   * Reads what {@link #toString} wrote.
   *
   * @param line one line
   * @return empty when it is something else
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

  /** One line. */
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
