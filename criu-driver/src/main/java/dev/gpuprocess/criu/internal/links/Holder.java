package dev.gpuprocess.criu.internal.links;

import dev.gpuprocess.internal.linux.Credentials;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.MappedFile;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** Finds the processes of a stopped tree that have a file open or mapped. */
final class Holder {

  private Holder() {}

  /**
   * Returns the credentials of a process that has a file open. Of several users, one that is not
   * root comes first.
   *
   * @param tree the processes
   * @return empty if none of the processes has the file
   * @throws IOException if such a process has the rights of several users
   */
  static Optional<Credentials> of(FileNode file, List<Integer> tree) throws IOException {
    List<Credentials> all = new ArrayList<>();
    for (int pid : tree) {
      if (hasOpen(pid, file) || hasMapped(pid, file)) {
        Credentials.of(pid).ifPresent(all::add);
      }
    }
    return all.stream()
        .filter(each -> each.user() != 0)
        .findFirst()
        .or(() -> all.stream().findFirst());
  }

  private static boolean hasOpen(int pid, FileNode file) {
    return ProcFs.openFiles(pid).stream()
        .map(OpenFile::number)
        .anyMatch(number -> isOpen(pid, number, file) && !isNameOnly(pid, number));
  }

  private static boolean isOpen(int pid, int number, FileNode file) {
    return FileNode.at(ProcFs.file(pid, "fd/" + number)).filter(file::isSameFile).isPresent();
  }

  /** An {@code O_PATH} descriptor only names the file, and needs no permission to it. */
  private static boolean isNameOnly(int pid, int number) {
    return (OpenFile.flags(pid, number).orElse(Libc.O_PATH) & Libc.O_PATH) != 0;
  }

  private static boolean hasMapped(int pid, FileNode file) {
    Set<String> seen = new HashSet<>();
    return ProcFs.memory(pid).stream()
        .filter(mapping -> mapping.inode() == file.inode() && seen.add(mapping.device()))
        .anyMatch(mapping -> MappedFile.examine(pid, mapping).filter(file::isSameFile).isPresent());
  }
}
