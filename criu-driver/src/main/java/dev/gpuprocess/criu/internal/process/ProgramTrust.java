package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Ownership;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Checks that only root can change a program. CRIU runs with all of root's privileges, so no other
 * user may be able to change the file, the libraries beside it, or a directory on its path.
 */
public final class ProgramTrust {

  private ProgramTrust() {}

  /**
   * Checks the program, its libraries and the directories on its path.
   *
   * @param provisioned whether the program was unpacked into a cache with its libraries beside it,
   *     where no group may write; a program of the system may be writable by a group of
   *     administrators
   * @return the reason why it must not be run; empty if it may be run
   */
  public static Optional<String> objection(Path program, boolean provisioned) {
    try {
      List<Path> all = new ArrayList<>(List.of(program));
      Path real = program.toRealPath();
      all.add(real);
      Path directory = real.getParent();
      if (provisioned && directory != null) {
        all.addAll(DurableFiles.list(directory));
      }
      for (Path path : List.copyOf(all.subList(0, 2))) {
        for (Path above = path.getParent(); above != null; above = above.getParent()) {
          all.add(above);
        }
      }
      for (Path path : all) {
        Optional<String> objection = of(path, provisioned);
        if (objection.isPresent()) {
          return objection;
        }
      }
      return Optional.empty();
    } catch (IOException e) {
      return Optional.of("it cannot be examined: " + e);
    }
  }

  private static Optional<String> of(Path path, boolean provisioned) throws IOException {
    Ownership found = Ownership.of(path);
    if (found.uid() != 0) {
      return Optional.of(
          "%s belongs to uid %s".formatted(path, Integer.toUnsignedString(found.uid())));
    }
    // Other users cannot replace root's files in a sticky directory such as /tmp.
    boolean safe =
        Files.isSymbolicLink(path)
            || (found.isSticky() && Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS));
    boolean writable = provisioned ? found.isWritableByOthers() : found.isWritableByAll();
    return writable && !safe ? Optional.of(path + " can be written by others") : Optional.empty();
  }
}
