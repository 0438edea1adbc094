package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.linux.Credentials;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.internal.text.Printable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;

/** Decides which shared files of a tree an image can hold. */
final class SharedFileCheck {

  /** The largest content of all files together that is copied while the tree is stopped. */
  private static final long MOST_BYTES = 16L << 30;

  private final List<Integer> tree;
  private long bytes;

  SharedFileCheck(int root) {
    this.tree = ProcFs.tree(root);
  }

  /**
   * Returns why an image cannot hold the content of a file.
   *
   * @return a clause about the file; empty if the image holds it, or CRIU's own files do
   */
  Optional<String> obstacle(SharedFile file) {
    Optional<Path> path = file.path();
    if (path.isEmpty()) {
      return isDumpedByCriu(file)
          ? Optional.empty()
          : Optional.of(
              "has another path here, as this JVM or the process has a mount namespace of its own");
    }
    OptionalInt outsider = SharedFile.outsider(file.node(), tree);
    if (outsider.isPresent()) {
      return Optional.of(
          "is shared with process %s, which is not in the tree".formatted(outsider.getAsInt()));
    }
    bytes += file.node().bytes();
    if (bytes > MOST_BYTES) {
      return Optional.of(
          "has %s, and an image holds %s of such files at most"
              .formatted(Bytes.text(file.node().bytes()), Bytes.text(MOST_BYTES)));
    }
    return isReadable(file, path.get())
        ? Optional.empty()
        : Optional.of("cannot be opened with the permissions of the process");
  }

  /** CRIU dumps the files of a tmpfs that belongs to a mount namespace of the tree. */
  private static boolean isDumpedByCriu(SharedFile file) {
    try {
      return !isInMountsOfInit(file.pid())
          && FileSystemStatus.of(ProcFs.file(file.pid(), "root" + file.name())).isInMemory();
    } catch (IOException e) {
      return false;
    }
  }

  private static boolean isInMountsOfInit(int pid) {
    try {
      return Files.readSymbolicLink(ProcFs.file(pid, "ns", "mnt"))
          .equals(Files.readSymbolicLink(ProcFs.file(1, "ns", "mnt")));
    } catch (IOException notPermitted) {
      return false;
    }
  }

  private static boolean isReadable(SharedFile file, Path path) {
    try {
      Optional<Credentials> user = Credentials.of(file.pid());
      return user.isPresent()
          && UntrustedPaths.as(
              user.get(),
              UntrustedPaths.PATIENCE,
              paths -> {
                Optional<OpenedFile> opened = paths.read(path);
                opened.ifPresent(OpenedFile::close);
                return opened.filter(each -> file.node().isSameFile(each.node())).isPresent();
              });
    } catch (IOException e) {
      return false;
    }
  }

  /** Returns a clause about the process. */
  static String what(SharedFile file, String obstacle) {
    return "shares memory through %s, which %s".formatted(Printable.of(file.name(), 200), obstacle);
  }
}
