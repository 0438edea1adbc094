package dev.gpuprocess.internal.extras;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.attributes.SharedFile;
import dev.gpuprocess.internal.linux.Credentials;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.text.Printable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A file that a tree has mapped as shared memory, with its content in a file of the image.
 *
 * @param number the number of the file in the image
 * @param path the path of the file
 * @param node the file at the time of the dump
 * @param user the credentials of a process that had it mapped
 */
record SharedFileContent(int number, Path path, FileNode node, Credentials user) {

  private static final Pattern TEXT =
      Pattern.compile(
          "shared (\\d{1,6}) (\\d{1,19}) (\\d{1,19}) (\\d{1,6}) (\\d{1,10}) (\\d{1,10}) (\\d{1,18}) ([0-9:,]{4,2000000}) ([0-9a-f]{2,8192})");

  private static final int PERMISSIONS = 0777;

  /** Returns the path of the content in an image. */
  private static Path place(Path images, int number) {
    return images.resolve("shared-" + number + ".bin");
  }

  /**
   * Copies a file of a stopped tree into an image, with the permissions of a process that has it
   * mapped.
   *
   * @param path the path of the file
   * @param images the directory of the copy
   * @return empty when the process is gone
   */
  static Optional<SharedFileContent> copy(
      SharedFile file, Path path, int number, Path images, Duration limit) throws IOException {
    Optional<Credentials> user = Credentials.of(file.pid());
    if (user.isEmpty()) {
      return Optional.empty();
    }
    try (OutputStream out = new SparseOutput(place(images, number))) {
      return UntrustedPaths.as(
          user.get(),
          limit,
          paths -> {
            try (OpenedFile opened = opened(paths, path, file.node())) {
              opened.copyTo(out);
              return Optional.of(new SharedFileContent(number, path, opened.node(), user.get()));
            }
          });
    }
  }

  private static OpenedFile opened(UntrustedPaths paths, Path path, FileNode node)
      throws IOException {
    OpenedFile opened = paths.read(path).orElseThrow(() -> replaced(path));
    if (!node.isSameFile(opened.node())) {
      opened.close();
      throw replaced(path);
    }
    return opened;
  }

  private static IOException replaced(Path path) {
    return new IOException(Printable.of(path.toString()) + " was replaced just now");
  }

  /**
   * Sets the file to what it was at the dump, and creates it if it does not exist.
   *
   * @param pid the process of the image
   * @param images the directory of the content
   * @return the file, if it was created
   * @throws ImageException when it cannot be set, or a running process uses it
   */
  Optional<FileNode> putBack(int pid, Path images, Duration limit) {
    Path content = place(images, number);
    try (InputStream first = Files.newInputStream(content);
        InputStream second = Files.newInputStream(content)) {
      return UntrustedPaths.as(user, limit, paths -> putBack(paths, first, second));
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          "process %s was not restored: the memory that it shared through %s cannot be put back (%s)"
              .formatted(
                  pid, Printable.of(path.toString()), Printable.of(String.valueOf(e.getMessage()))),
          Failure.of("restore", pid),
          e);
    }
  }

  private Optional<FileNode> putBack(
      UntrustedPaths paths, InputStream content, InputStream sameContent) throws IOException {
    Optional<OpenedFile> there = paths.readAndWrite(path);
    if (there.isEmpty()) {
      return Optional.of(create(paths, content));
    }
    try (OpenedFile file = there.get()) {
      if (!file.hasContentOf(content)) {
        requireUnused(file);
        file.replace(sameContent);
      }
      return Optional.empty();
    }
  }

  /** Refuses a file that is not the one of the dump, and one that is the memory of others. */
  private void requireUnused(OpenedFile file) throws IOException {
    FileNode now = file.node();
    // The kernel gives the inode of a removed file to the next one.
    boolean looksTheSame =
        now.user() == node.user() && now.group() == node.group() && now.mode() == node.mode();
    boolean mayBeTheSame =
        looksTheSame && (node.isSameFile(now) || FileSystemStatus.of(file.self()).isInMemory());
    if (!mayBeTheSame) {
      throw new IOException("another file has this name: move it away");
    }
    OptionalInt outsider = SharedFile.outsider(now, List.of());
    if (outsider.isPresent()) {
      throw new IOException("process %s uses it: end it".formatted(outsider.getAsInt()));
    }
  }

  private FileNode create(UntrustedPaths paths, InputStream content) throws IOException {
    try (OpenedFile created = paths.create(path)) {
      try {
        created.replace(content);
        paths.setOwner(created, node.user(), node.group());
        created.setMode(node.mode() & PERMISSIONS);
        return created.node();
      } catch (IOException e) {
        paths.remove(path, created.node());
        throw e;
      }
    }
  }

  /** Removes the file that {@link #putBack} created. */
  void remove(FileNode made) throws IOException {
    boolean unused =
        UntrustedPaths.as(
            user,
            UntrustedPaths.PATIENCE,
            paths -> {
              paths.remove(path, made);
              return true;
            });
  }

  /**
   * Parses the text of {@link #toString}.
   *
   * @return empty when the line is something else
   */
  static Optional<SharedFileContent> parse(String line) {
    Matcher text = TEXT.matcher(line);
    if (!text.matches() || text.group(9).length() % 2 != 0) {
      return Optional.empty();
    }
    Path path = NativePath.of(HexFormat.of().parseHex(text.group(9)));
    return Credentials.parse(text.group(8))
        .filter(user -> path.isAbsolute() && path.equals(path.normalize()))
        .map(
            user ->
                new SharedFileContent(
                    Integer.parseInt(text.group(1)),
                    path,
                    new FileNode(
                        Long.parseLong(text.group(2)),
                        Long.parseLong(text.group(3)),
                        Integer.parseInt(text.group(4)),
                        1,
                        Long.parseLong(text.group(7)),
                        0,
                        Integer.parseUnsignedInt(text.group(5)),
                        Integer.parseUnsignedInt(text.group(6))),
                    user));
  }

  /** Returns one line for an image. */
  @Override
  public String toString() {
    return "shared %s %s %s %s %s %s %s %s %s"
        .formatted(
            Integer.toString(number),
            Long.toString(node.device()),
            Long.toString(node.inode()),
            Integer.toString(node.mode()),
            Integer.toUnsignedString(node.user()),
            Integer.toUnsignedString(node.group()),
            Long.toString(node.bytes()),
            user,
            HexFormat.of().formatHex(NativePath.bytes(path)));
  }
}
