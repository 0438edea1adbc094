package dev.gpuprocess.internal.proc;

import dev.gpuprocess.internal.proc.Capabilities.Capability;
import dev.gpuprocess.internal.proc.Namespaces.Kind;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;

/**
 * The mount namespace of init, for a JVM that is in another one with the same root directory, such
 * as a service with a private {@code /tmp}. CRIU is started in that of init, so that processes of
 * the host are dumped and restored as by a controller that has no mounts of its own.
 */
public final class HostMounts {

  private static final int INIT = 1;

  private HostMounts() {}

  /** Returns whether the mounts of this JVM are not those of init, and it may enter init's. */
  public static boolean differFromOurs() {
    return ProcessHandle.current().pid() != INIT
        && Namespaces.of(INIT).differs(Kind.MOUNT, Namespaces.ours())
        && Capabilities.ours().handsOn(Capability.SYS_ADMIN)
        && hasOurRoot();
  }

  private static boolean hasOurRoot() {
    try {
      return Files.isSameFile(ProcFs.file(INIT, "root"), Path.of("/"));
    } catch (IOException forbidden) {
      return false;
    }
  }

  /** Returns whether a process is in the mount namespace of init, as far as it can be seen. */
  public static boolean areThoseOf(int pid) {
    return Namespaces.of(INIT)
        .get(Kind.MOUNT)
        .filter(link -> Namespaces.of(pid).get(Kind.MOUNT).filter(link::equals).isPresent())
        .isPresent();
  }

  /** Returns the file that identifies the mount namespace of init. */
  public static Path namespace() {
    return ProcFs.file(INIT, "ns", Kind.MOUNT.link());
  }

  /** Returns the mounts of init. */
  public static List<Mount> mounts() {
    return Mount.of(INIT);
  }

  /**
   * Returns our paths of a path that may be one of init: of init, if its mounts differ, and ours.
   */
  public static List<Path> candidates(Path path) {
    return differFromOurs() ? List.of(seenFromHere(path), path) : List.of(path);
  }

  /** Returns whether a path exists in our mount namespace, or in that of init if ours differs. */
  public static boolean have(Path path) {
    return Files.exists(path, LinkOption.NOFOLLOW_LINKS)
        || (differFromOurs() && Files.exists(seenFromHere(path), LinkOption.NOFOLLOW_LINKS));
  }

  /** Returns our path of what init has at a path. */
  public static Path seenFromHere(Path path) {
    return NativePath.of(ProcFs.file(INIT, "root") + NativePath.text(path));
  }
}
