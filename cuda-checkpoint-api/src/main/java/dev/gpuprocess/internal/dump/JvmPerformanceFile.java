package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.jnr.FileFunctions;
import dev.gpuprocess.internal.os.NativeLibraries;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import jnr.ffi.Runtime;

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

  private static final int O_WRONLY = 1;
  private static final int O_CREAT = 0100;
  private static final int O_EXCL = 0200;
  private static final int O_NOFOLLOW = ARM.IS ? 0100000 : 0400000;
  private static final int O_DIRECTORY = ARM.IS ? 040000 : 0200000;
  private static final int O_CLOEXEC = 02000000;
  private static final int OWNER_ONLY = 0600;
  private static final int DIRECTORY_MODE = 0755;

  private static final class ARM {
    static final boolean IS = "aarch64".equals(System.getProperty("os.arch"));
  }

  /** Loaded when first needed. */
  private static final class C {
    static final FileFunctions LIBRARY = NativeLibraries.load(FileFunctions.class, "c");

    static int check(long result, String call, Path path) throws IOException {
      if (result < 0) {
        int errno = Runtime.getRuntime(LIBRARY).getLastError();
        throw new FileSystemException(path.toString(), null, call + ": " + LIBRARY.strerror(errno));
      }
      return Math.toIntExact(result);
    }
  }

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
    boolean made = C.LIBRARY.mkdir(NativePath.cString(parent), DIRECTORY_MODE) == 0;
    int directory =
        C.check(
            C.LIBRARY.open(NativePath.cString(parent), O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
            "open",
            parent);
    try {
      if (made) {
        C.check(C.LIBRARY.fchown(directory, user, group), "fchown", parent);
      }
      write(directory);
      return true;
    } finally {
      C.LIBRARY.close(directory);
    }
  }

  private void write(int directory) throws IOException {
    byte[] name = NativePath.cString(Objects.requireNonNull(path.getFileName()));
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int file = C.check(C.LIBRARY.openat(directory, name, flags, OWNER_ONLY), "create", path);
    try {
      long written = C.check(C.LIBRARY.write(file, content, content.length), "write", path);
      if (written != content.length) {
        throw new FileSystemException(path.toString(), null, "no room for it");
      }
      C.check(C.LIBRARY.fchmod(file, OWNER_ONLY), "fchmod", path);
      C.check(C.LIBRARY.fchown(file, user, group), "fchown", path);
    } catch (IOException e) {
      C.LIBRARY.unlinkat(directory, name, 0);
      throw e;
    } finally {
      C.LIBRARY.close(file);
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
