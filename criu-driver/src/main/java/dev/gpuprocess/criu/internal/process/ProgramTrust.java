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
 * Whether a program is only what root has put there. Root runs CRIU with all its rights, so nobody
 * else may have a hand in the file, in what it loads from beside it, or in a directory on the way.
 */
public final class ProgramTrust {

  private static final int WRITABLE_BY_GROUP = 0020;
  private static final int WRITABLE_BY_ALL = 0002;
  private static final int STICKY = 01000;

  private ProgramTrust() {}

  /** Whether this JVM is root's, which is when it matters. */
  public static boolean weAreRoot() {
    try {
      return Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0);
    } catch (IOException e) {
      return true;
    }
  }

  /**
   * Looks for what somebody else could change.
   *
   * @param provisioned whether it is one of a cache, which was unpacked with its libraries beside
   *     it and belongs to nobody else; one of the system may be its administrators' group's
   * @return why it is not to be run; empty when it may
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
      return Optional.of("it cannot be looked at: " + e);
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
    // In a directory such as /tmp nobody can replace what is root's.
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
