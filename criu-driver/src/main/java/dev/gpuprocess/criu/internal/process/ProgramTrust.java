package dev.gpuprocess.criu.internal.process;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Checks that only root can change a program. CRIU runs with all of root's privileges, so nobody
 * else may be able to change the file, the libraries beside it, or a directory on its path.
 */
public final class ProgramTrust {

  private static final int WRITABLE_BY_GROUP = 0020;
  private static final int WRITABLE_BY_ALL = 0002;
  private static final int STICKY = 01000;

  private ProgramTrust() {}

  /** Whether this JVM runs as root; only then does it matter. */
  public static boolean weAreRoot() {
    try {
      return Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0);
    } catch (IOException e) {
      return true;
    }
  }

  /**
   * Looks for anything that another user could change.
   *
   * @param provisioned whether the program was unpacked into a cache with its libraries beside it,
   *     where no group may write; a program of the system may be writable by a group of
   *     administrators
   * @return why it must not be run; empty if it may be
   */
  public static Optional<String> objection(Path program, boolean provisioned) {
    try {
      List<Path> all = new ArrayList<>(List.of(program));
      Path real = program.toRealPath();
      all.add(real);
      Path directory = real.getParent();
      if (provisioned && directory != null) {
        try (DirectoryStream<Path> beside = Files.newDirectoryStream(directory)) {
          beside.forEach(all::add);
        }
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
    Map<String, Object> found =
        Files.readAttributes(
            path, "unix:uid,mode,isSymbolicLink,isDirectory", LinkOption.NOFOLLOW_LINKS);
    int owner = number(found, "uid");
    int mode = number(found, "mode");
    if (owner != 0) {
      return Optional.of("%s belongs to uid %s".formatted(path, Integer.toUnsignedString(owner)));
    }
    if (Boolean.TRUE.equals(found.get("isSymbolicLink"))) {
      return Optional.empty();
    }
    // In a sticky directory such as /tmp, nobody else can replace root's files.
    boolean sticky = Boolean.TRUE.equals(found.get("isDirectory")) && (mode & STICKY) != 0;
    int forbidden = provisioned ? WRITABLE_BY_ALL | WRITABLE_BY_GROUP : WRITABLE_BY_ALL;
    return !sticky && (mode & forbidden) != 0
        ? Optional.of(path + " can be written by others")
        : Optional.empty();
  }

  private static int number(Map<String, Object> attributes, String name) {
    return ((Number) attributes.getOrDefault(name, 0)).intValue();
  }
}
