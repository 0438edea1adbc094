package dev.gpuprocess.internal.extras;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.RestoreOptions;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
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
  private static final Set<String> OWN = Set.of("/", "/proc", "/dev/shm");
  private static final int POINT = 4;
  private static final String FIRST_OF_NAMESPACE = "\t1";

  /** Returns the isolation of a process; empty when it is not isolated, or has ended. */
  public static Optional<Isolation> of(int pid) {
    String pids = ProcFs.status(pid).getOrDefault("NSpid", "").strip();
    if (!pids.endsWith(FIRST_OF_NAMESPACE) || !hasOurRoot(pid)) {
      return Optional.empty();
    }
    return Optional.of(
        new Isolation(
            ProcFs.read(pid, "mountinfo")
                .orElse("")
                .lines()
                .map(line -> unescaped(line.split(" ")[POINT]))
                .distinct()
                .filter(point -> !OWN.contains(point))
                .map(NativePath::of)
                .toList()));
  }

  /** Returns whether the process has the root directory of this JVM; a container has another. */
  private static boolean hasOurRoot(int pid) {
    Path process = Path.of("/proc", Integer.toString(pid));
    try {
      return Files.isSameFile(process.resolve("root"), Path.of("/"))
          && !Files.readSymbolicLink(process.resolve("ns/mnt"))
              .equals(Files.readSymbolicLink(Path.of("/proc/self/ns/mnt")));
    } catch (IOException unreadable) {
      return false;
    }
  }

  /** Decodes the three octal digits that the kernel writes for blanks and the like. */
  private static String unescaped(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    for (int i = 0; i < bytes.length; i++) {
      if (bytes[i] == '\\' && i + 3 < bytes.length) {
        all.write(
            Integer.parseInt(new String(bytes, i + 1, 3, StandardCharsets.US_ASCII), Byte.SIZE));
        i += 3;
      } else {
        all.write(bytes[i]);
      }
    }
    return all.toString(StandardCharsets.UTF_8);
  }

  /** Returns the options of a dump that omits the host's mounts. */
  public DumpOptions with(DumpOptions options) {
    External[] external =
        IntStream.range(0, mounts.size())
            .mapToObj(i -> External.mount(mounts.get(i), NAME.formatted(i)))
            .toArray(External[]::new);
    return options.toBuilder().external(external).build();
  }

  /** Returns the isolation of an image; empty when its process was not isolated. */
  public static Optional<Isolation> of(Manifest manifest) {
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
    RestoreOptions.Builder all = options.toBuilder().external(external);
    // Without a root CRIU stops with "BUG at criu/mount.c".
    return options.root().isPresent() ? all.build() : all.root(Path.of("/")).build();
  }
}
