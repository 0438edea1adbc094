package dev.gpuprocess.internal.extras;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.proc.Mount;
import dev.gpuprocess.internal.proc.Namespaces;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.RestoreOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.IntStream;

/**
 * The isolation of a tree whose root is the first process of a pid namespace and has a mount
 * namespace with the same root directory as this JVM: a process that was launched isolated. The
 * tree has its own {@code /proc} and {@code /dev/shm}; every other mount is a mount of the host,
 * which a restore binds again.
 *
 * @param mounts the mount points of the host's mounts, in no particular order
 */
public record Isolation(List<Path> mounts) {

  private static final String NAME = "gpuprocess-%s";
  private static final Set<Path> OWN = Set.of(Path.of("/"), ProcFs.ROOT, Path.of("/dev/shm"));

  /** Returns the isolation of a process; empty when it is not isolated, or has ended. */
  public static Optional<Isolation> of(int pid) {
    OptionalInt inner = ProcFs.innermostPid(pid);
    if (inner.isEmpty() || inner.getAsInt() != 1 || pid == 1 || !hasOurRoot(pid)) {
      return Optional.empty();
    }
    return Optional.of(
        new Isolation(
            Mount.of(pid).stream()
                .map(Mount::point)
                .distinct()
                .filter(point -> !OWN.contains(point))
                .toList()));
  }

  /** Returns whether the process has the root directory of this JVM; a container has another. */
  private static boolean hasOurRoot(int pid) {
    Path process = ProcFs.file(pid);
    try {
      return Files.isSameFile(process.resolve("root"), Path.of("/"))
          && Namespaces.of(pid).differs(Namespaces.Kind.MOUNT, Namespaces.ours());
    } catch (IOException unreadable) {
      return false;
    }
  }

  /** Returns the options of a dump that omits the host's mounts. */
  public DumpOptions with(DumpOptions options) {
    External[] external =
        IntStream.range(0, mounts.size())
            .mapToObj(i -> External.mount(mounts.get(i), NAME.formatted(i)))
            .toArray(External[]::new);
    return options.toBuilder().criu(c -> c.external(external)).build();
  }

  /** Returns the isolation of an image; empty when its process was not isolated. */
  public static Optional<Isolation> of(ManifestData manifest) {
    List<String> mounts = manifest.options().hostMounts();
    return mounts == null
        ? Optional.empty()
        : Optional.of(new Isolation(mounts.stream().map(NativePath::of).toList()));
  }

  /** Returns the mount points for the manifest. */
  List<String> names() {
    return mounts.stream().map(NativePath::text).toList();
  }

  /**
   * Returns the options of a restore that binds the mounts of this host.
   *
   * @throws ImageException with reason MISMATCH when this host lacks a mount point; nothing was
   *     done
   */
  public RestoreOptions with(int pid, RestoreOptions options) {
    for (Path mount : mounts) {
      if (!Files.exists(mount, LinkOption.NOFOLLOW_LINKS)) {
        throw new ImageException(
            ImageException.Reason.MISMATCH,
            "the isolated process of the image had %s mounted, and this host has nothing there: create it; nothing was restored"
                .formatted(mount),
            Failure.of("restore", pid));
      }
    }
    External[] external =
        IntStream.range(0, mounts.size())
            .mapToObj(i -> External.restoredMount(NAME.formatted(i), mounts.get(i)))
            .toArray(External[]::new);
    RestoreOptions.Builder all = options.toBuilder().criu(c -> c.external(external));
    // Without it CRIU stops with "BUG at criu/mount.c".
    return options.criu().isSet(CriuSwitch.ROOT)
        ? all.build()
        : all.criu(c -> c.root(Path.of("/"))).build();
  }
}
