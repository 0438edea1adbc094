package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Finds the processes that map memory files of an image: restored processes that are not resumed,
 * and processes whose controller died while it made the image. Processes outside of this pid
 * namespace are not found.
 */
final class MappingProcesses {

  /** The pids of the members, in their namespace. */
  private final Set<Integer> pids;

  /** The memory files by inode; device numbers are not those of {@code stat} on every system. */
  private final Map<Long, Path> files;

  private MappingProcesses(Set<Integer> pids, Map<Long, Path> files) {
    this.pids = pids;
    this.files = files;
  }

  /**
   * Searches all processes.
   *
   * @return the process that maps or may map a file, as the end of a sentence about the image;
   *     empty when no process does
   */
  static Optional<String> of(PinnedDirectory image, ManifestData manifest) throws IOException {
    if (manifest.memoryFiles().isEmpty()) {
      return Optional.empty();
    }
    Map<Long, Path> files = new HashMap<>();
    for (MemoryFile each : manifest.memoryFiles()) {
      Path file = image.path().resolve(each.file());
      files.put((Long) Files.getAttribute(file, "unix:ino"), file.getFileName());
    }
    Set<Integer> pids = new HashSet<>(Set.of(manifest.pid()));
    manifest.cudaProcesses().forEach(each -> pids.add(each.pid()));
    MappingProcesses search = new MappingProcesses(pids, files);
    for (int process : ProcFs.processes()) {
      Optional<String> found = search.lookAt(process);
      if (found.isPresent()) {
        return found;
      }
    }
    return Optional.empty();
  }

  private Optional<String> lookAt(int process) {
    try {
      return Mapping.of(process, this::isOne).isEmpty()
          ? Optional.empty()
          : Optional.of("is mapped by process %s, until the process is resumed".formatted(process));
    } catch (ProcessUnreadableException e) {
      if (e.getCause() instanceof AccessDeniedException && !canBeOne(process)) {
        return Optional.empty();
      }
      return Optional.of("may be mapped by process %s: %s".formatted(process, e.getMessage()));
    }
  }

  private boolean isOne(Mapping mapping) {
    Path file = files.get(mapping.inode());
    return file != null && mapping.name().contains("/" + MemoryFile.DIRECTORY + "/" + file);
  }

  /**
   * Returns whether a process with unreadable mappings can be a restored one, which has its pid in
   * the image in its own pid namespace.
   */
  private boolean canBeOne(int process) {
    return pids.contains(ProcFs.innermostPid(process).orElse(process));
  }
}
