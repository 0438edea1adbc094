package dev.gpuprocess.internal.proc;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.internal.time.IoSupplier;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * Reads one file, link or directory below {@code /proc}. The result is empty if it does not exist;
 * if it exists and cannot be read, {@link ProcessUnreadableException} is thrown.
 *
 * <p>The JDK has an exception type for ENOENT only; every other error is a text in the user's
 * language. So after a failure the path is checked with {@code lstat}, which needs no descriptor
 * and answers ENOENT for everything that belongs to a task that is gone.
 */
final class ProcFile {

  /** More than any file that is read as a whole has on a working machine. */
  private static final int MAX_BYTES = 16 << 20;

  /** Longer than the longest path, even when the kernel writes each byte of it as four. */
  private static final int LONGEST_LINE = 1 << 15;

  private static final int BUFFER_BYTES = 1 << 14;
  private static final int ATTEMPTS = 3;
  private static final Path SELF = ProcFs.self("stat");

  /** EMFILE; translated in some locales, where it counts whether a file can still be opened. */
  private static final String TABLE_IS_FULL = "Too many open files";

  private ProcFile() {}

  /**
   * Reads a file.
   *
   * @throws ProcessUnreadableException when it exists and cannot be read, or is too long
   */
  static Optional<String> text(Path file) {
    Optional<byte[]> bytes = head(file, MAX_BYTES + 1);
    if (bytes.isPresent() && bytes.get().length > MAX_BYTES) {
      throw new ProcessUnreadableException(
          "%s has more than %s MiB, which no healthy process needs: look at what the process does"
              .formatted(file, MAX_BYTES >> 20),
          failure(file));
    }
    return bytes.map(all -> new String(all, StandardCharsets.UTF_8));
  }

  /** Reads at most that many bytes from the beginning of a file. */
  static Optional<byte[]> head(Path file, int most) {
    return unlessGone(
        file,
        () -> {
          try (InputStream in = Files.newInputStream(file)) {
            return in.readNBytes(most);
          }
        });
  }

  /**
   * Reads a file line by line. Only a newline ends a line: names may hold any other character.
   *
   * @param each gets the lines that were read before the task ended
   */
  static void lines(Path file, Consumer<String> each) {
    Optional<InputStream> opened = unlessGone(file, () -> Files.newInputStream(file));
    if (opened.isEmpty()) {
      return;
    }
    try (InputStream in = opened.get()) {
      byte[] buffer = new byte[BUFFER_BYTES];
      ByteArrayOutputStream line = new ByteArrayOutputStream();
      int size;
      while ((size = in.read(buffer)) > 0) {
        split(buffer, size, line, each);
      }
      if (line.size() > 0) {
        each.accept(line.toString(StandardCharsets.UTF_8));
      }
    } catch (IOException e) {
      throwUnlessGone(file, e);
    }
  }

  private static void split(
      byte[] buffer, int size, ByteArrayOutputStream line, Consumer<String> each) {
    int start = 0;
    for (int i = 0; i < size; i++) {
      if (buffer[i] == '\n') {
        append(line, buffer, start, i);
        each.accept(line.toString(StandardCharsets.UTF_8));
        line.reset();
        start = i + 1;
      }
    }
    append(line, buffer, start, size);
  }

  private static void append(ByteArrayOutputStream line, byte[] buffer, int start, int end) {
    line.write(buffer, start, Math.min(end - start, LONGEST_LINE - line.size()));
  }

  /** Reads the target of a link. */
  static Optional<String> link(Path link) {
    return unlessGone(link, () -> Files.readSymbolicLink(link).toString());
  }

  /**
   * Lists the names in a directory.
   *
   * @param each called while the directory is open
   */
  static void names(Path directory, Consumer<String> each) {
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory)) {
      for (Path entry : entries) {
        each.accept(String.valueOf(entry.getFileName()));
      }
    } catch (NoSuchFileException gone) {
      return;
    } catch (DirectoryIteratorException e) {
      throwUnlessGone(directory, Objects.requireNonNull(e.getCause()));
    } catch (IOException e) {
      throwUnlessGone(directory, e);
    }
  }

  private static <T> Optional<T> unlessGone(Path path, IoSupplier<T> reading) {
    for (int attempt = 1; ; attempt++) {
      try {
        return Optional.of(reading.get());
      } catch (NoSuchFileException gone) {
        return Optional.empty();
      } catch (IOException e) {
        if (isGone(path)) {
          return Optional.empty();
        }
        // The pid may have been reused between the failure and the check; then it can be read.
        if (attempt == ATTEMPTS) {
          throw unreadable(path, e);
        }
      }
    }
  }

  private static void throwUnlessGone(Path path, IOException e) {
    if (!isGone(path)) {
      throw unreadable(path, e);
    }
  }

  /** Returns whether the path certainly does not exist, rather than being inaccessible. */
  static boolean isGone(Path path) {
    try {
      Files.readAttributes(path, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
      return false;
    } catch (NoSuchFileException gone) {
      return true;
    } catch (IOException notSeen) {
      return false;
    }
  }

  private static ProcessUnreadableException unreadable(Path path, IOException e) {
    String reason =
        e instanceof FileSystemException failed && failed.getReason() != null
            ? failed.getReason()
            : String.valueOf(e.getMessage());
    if (e instanceof AccessDeniedException) {
      return new ProcessUnreadableException(
          "%s may not be read: run as root, or as the user of the process".formatted(path),
          failure(path),
          e);
    }
    return new ProcessUnreadableException(
        "%s cannot be read (%s), so nothing is known about that process: %s"
            .formatted(
                path,
                reason,
                reason.equals(TABLE_IS_FULL) || !canOpen(SELF)
                    ? "this JVM cannot open any file: close some, or raise its limit"
                        + " (RLIMIT_NOFILE, ulimit -n)"
                    : "try again"),
        failure(path),
        e);
  }

  private static boolean canOpen(Path file) {
    try (InputStream in = Files.newInputStream(file)) {
      return in.read() >= 0;
    } catch (IOException e) {
      return false;
    }
  }

  /** The pid is the second name in the path. */
  private static Failure failure(Path path) {
    String name = path.getNameCount() > 1 ? path.getName(1).toString() : "";
    boolean number = !name.isEmpty() && name.chars().allMatch(c -> c >= '0' && c <= '9');
    return Failure.of("read " + path.getFileName(), number ? Long.parseLong(name) : 0);
  }
}
