package dev.gpuprocess.internal.machine;

import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.MappedFile;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds the programs and libraries whose code a tree has mapped, and that a restore opens by their
 * paths. CRIU dumps files without a name, and files on mounts of the tree's own.
 */
final class MappedFiles {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** A limit for the manifest, which must be small enough to be read. */
  private static final int MOST_OF_PATHS = 1 << 20;

  private static final String DELETED = " (deleted)";
  private static final List<String> OF_THE_KERNEL = List.of("/proc/", "/sys/", "/dev/");

  private final Set<String> paths = new TreeSet<>();
  private int characters;
  private boolean isFull;

  private MappedFiles() {}

  /**
   * Reads a tree that is frozen.
   *
   * @param root of the tree
   * @param isIsolated whether it has the host's mounts in a mount namespace of its own
   * @param carried files that are in the image
   */
  static List<MappedFile> of(int root, boolean isIsolated, Set<Path> carried) {
    MappedFiles found = new MappedFiles();
    Path ofRoot = ProcFs.file(root);
    for (int pid : ProcFs.tree(root)) {
      Path process = ProcFs.file(pid);
      try {
        if (hasOurFiles(process) || (isIsolated && hasSameMounts(process, ofRoot))) {
          ProcFs.memory(pid, mapping -> found.add(mapping, isIsolated));
        }
      } catch (IOException | ProcessUnreadableException e) {
        LOG.warn("the image does not record the libraries of process {}: {}", pid, e.getMessage());
      }
    }
    if (found.isFull) {
      LOG.warn("the image does not record all libraries of process {}", root);
    }
    return found.paths.stream()
        .filter(path -> !carried.contains(NativePath.of(path)))
        .flatMap(path -> recorded(path).stream())
        .toList();
  }

  /** In another mount namespace, or below another root, the same path may be another file. */
  private static boolean hasOurFiles(Path process) throws IOException {
    return hasSameMounts(process, ProcFs.self());
  }

  private static boolean hasSameMounts(Path process, Path other) throws IOException {
    return Files.readSymbolicLink(process.resolve("ns/mnt"))
            .equals(Files.readSymbolicLink(other.resolve("ns/mnt")))
        && Files.isSameFile(process.resolve("root"), other.resolve("root"));
  }

  private void add(Mapping mapping, boolean isIsolated) {
    String path = mapping.name().replace("\\012", "\n");
    if (mapping.permissions().charAt(2) == 'x'
        && mapping.inode() != 0
        && path.startsWith("/")
        && !path.endsWith(DELETED)
        && !isOfTheKernel(path, isIsolated)
        && !paths.contains(path)) {
      characters += path.length();
      isFull |= paths.size() == ImageMachine.MOST_FILES || characters > MOST_OF_PATHS;
      if (!isFull) {
        paths.add(path);
      }
    }
  }

  /** An isolated process has a {@code /dev/shm} of its own, which is in the image. */
  private static boolean isOfTheKernel(String path, boolean isIsolated) {
    boolean isShared = path.startsWith("/dev/shm/") && !isIsolated;
    return !isShared && OF_THE_KERNEL.stream().anyMatch(path::startsWith);
  }

  private static Optional<MappedFile> recorded(String path) {
    try (PinnedFile file = PinnedFile.at(NativePath.of(path))) {
      if (!file.isRegular()) {
        return Optional.empty();
      }
      String buildId = file.buildId().orElse(null);
      return Optional.of(
          new MappedFile(path, file.bytes(), buildId, buildId == null ? file.modified() : null));
    } catch (IOException e) {
      // The file has another name than the kernel shows, or may not be read.
      LOG.debug("the image does not record that it needs {}: {}", path, e.toString());
      return Optional.empty();
    }
  }
}
