package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.linux.MappedFile;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.WorkLimit;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * A file with a name that processes of a tree have mapped as shared, writable memory. CRIU restores
 * the mapping, and not the content.
 *
 * @param pid a process that has it mapped
 * @param name the name of the file, as that process sees it
 * @param node the file
 */
public record SharedFile(int pid, String name, FileNode node) {

  /** What is in memory files, the doctor's and CRIU's concern, or of a JVM. */
  private static final Pattern OTHER =
      Pattern.compile(
          "/(SYSV|memfd:|dev/zero|\\[aio\\]|anon_hugepage).*|.*/hsperfdata_[^/]+/\\d+|.* \\(deleted\\)");

  private record Key(long device, long inode) {}

  /**
   * Finds the files of a tree.
   *
   * @throws ProcessUnreadableException when a process may not be read
   */
  public static List<SharedFile> of(int root, WorkLimit limit) {
    Map<Key, SharedFile> found = new LinkedHashMap<>();
    for (int pid : ProcFs.tree(root)) {
      Set<String> seen = new HashSet<>();
      ProcFs.memory(
          pid,
          mapping -> {
            limit.check();
            if (isSharedMemory(mapping) && seen.add(mapping.device() + " " + mapping.inode())) {
              mapped(pid, mapping)
                  .filter(node -> node.isRegular() && node.links() > 0)
                  .ifPresent(
                      node ->
                          found.putIfAbsent(
                              new Key(node.device(), node.inode()),
                              new SharedFile(pid, mapping.name(), node)));
            }
          });
    }
    return List.copyOf(found.values());
  }

  private static boolean isSharedMemory(Mapping mapping) {
    return mapping.permissions().charAt(1) == 'w'
        && isShared(mapping)
        && mapping.inode() != 0
        && mapping.name().startsWith("/")
        && !OTHER.matcher(mapping.name()).matches()
        && !SaveFileMappings.isName(mapping.name());
  }

  private static boolean isShared(Mapping mapping) {
    return mapping.permissions().endsWith("s");
  }

  private static Optional<FileNode> mapped(int pid, Mapping mapping) {
    return MappedFile.examine(pid, mapping)
        .or(() -> FileNode.at(ProcFs.file(pid, "root" + mapping.name())));
  }

  /**
   * Returns the path of the file here.
   *
   * @return empty when it has another path in the mount namespace of this JVM, or none
   */
  public Optional<Path> path() {
    try {
      Path path = NativePath.of(name);
      return Optional.of(path)
          .filter(
              there ->
                  FileNode.at(there, LinkOption.NOFOLLOW_LINKS)
                      .filter(node::isSameFile)
                      .isPresent());
    } catch (InvalidPathException e) {
      return Optional.empty();
    }
  }

  /** Returns a process that has the file mapped as shared memory and is not one of a tree. */
  public static OptionalInt outsider(FileNode file, Collection<Integer> tree) {
    return ProcFs.processes().stream()
        .filter(pid -> !tree.contains(pid) && hasMapped(pid, file))
        .mapToInt(Integer::intValue)
        .findFirst();
  }

  private static boolean hasMapped(int pid, FileNode file) {
    try {
      return Mapping.of(pid, each -> each.inode() == file.inode() && isShared(each)).stream()
          .anyMatch(each -> mapped(pid, each).filter(file::isSameFile).isPresent());
    } catch (ProcessUnreadableException ofAnotherUser) {
      return false;
    }
  }
}
