package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.internal.proc.HostMounts;
import dev.gpuprocess.internal.proc.Namespaces;
import dev.gpuprocess.internal.proc.Namespaces.Kind;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The mount namespace in which CRIU works, and from which it mounts what a tree needs. */
public enum MountPlace {
  /** That of this JVM. */
  OURS,
  /** That of init, from a JVM in another one. */
  HOST;

  /** Marks images whose paths are those of init. */
  private static final String FILE = "host-mounts.txt";

  private static final String TEXT = "The paths of these images are those of init.\n";

  /** Returns the place for a dump: ours for a tree that shares our mounts. */
  public static MountPlace ofDump(int root) {
    return HostMounts.differFromOurs() && Namespaces.of(root).differs(Kind.MOUNT, Namespaces.ours())
        ? HOST
        : OURS;
  }

  /** Returns the place for a restore: that of the dump. */
  public static MountPlace ofRestore(Path images) {
    return Files.exists(images.resolve(FILE)) && HostMounts.differFromOurs() ? HOST : OURS;
  }

  /**
   * Marks complete images of a tree whose paths are those of init, before their checksums are made.
   *
   * @param self whether CRIU worked in the mount namespace of this JVM
   */
  public static void record(Path images, boolean self) throws IOException {
    if (!self || HostMounts.areThoseOf((int) ProcessHandle.current().pid())) {
      Files.writeString(images.resolve(FILE), TEXT);
    }
  }
}
