package dev.gpuprocess.internal.extras;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.HostMounts;
import dev.gpuprocess.internal.proc.Mount;
import dev.gpuprocess.internal.proc.Namespaces;
import dev.gpuprocess.internal.proc.Namespaces.Kind;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.RestoreOptions;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import java.util.zip.GZIPOutputStream;
import org.jspecify.annotations.Nullable;

/**
 * The mounts of a tree that has a mount namespace of its own, with the root directory of this JVM:
 * a process that was launched isolated, a service with a private {@code /tmp}, a job of {@code
 * unshare --mount}. A mount of the host is bound again by the restore. Every other mount, such as a
 * tmpfs that only this tree sees, is in the image.
 *
 * @param bound the mount points of the host's mounts, with the paths that this JVM has for them
 * @param hidden the devices of the host's file systems that the tree has mounted something over
 * @param files the open files that the tree opened outside of its mount namespace
 * @param isolated whether the root is the first process of a pid namespace
 */
public record TreeMounts(
    Map<Path, Path> bound, Set<String> hidden, List<External> files, boolean isolated) {

  private static final String NAME = "gpuprocess-%s";
  private static final Path ROOT = Path.of("/");

  /** CRIU's name for the content of a tmpfs, by the minor number of its device. */
  private static final String CONTENT = "tmpfs-dev-%s.tar.gz.img";

  private static final String NO_MAJOR = "0:";

  /** Keeps the order, in which the mounts are numbered. */
  public TreeMounts {
    bound = Collections.unmodifiableMap(new LinkedHashMap<>(bound));
    hidden = Set.copyOf(hidden);
    files = List.copyOf(files);
  }

  /**
   * Returns the mounts of a tree; empty when its mount namespace is ours, or its root is not.
   *
   * @param options of the dump; what their caller says of the mounts counts
   */
  public static Optional<TreeMounts> of(int root, DumpOptions options) {
    return of(root)
        .map(
            found ->
                options.criu().get(CriuSwitch.EXTERNAL_MOUNTS)
                    ? new TreeMounts(Map.of(), found.hidden, found.files, found.isolated)
                    : found.without(options.criu().get(CriuSwitch.EXTERNAL)));
  }

  /** Returns the mounts of a tree; empty when its mount namespace is ours, or its root is not. */
  public static Optional<TreeMounts> of(int root) {
    if (root == 1
        || !Namespaces.of(root).differs(Kind.MOUNT, Namespaces.ours())
        || !hasOurRoot(root)) {
      return Optional.empty();
    }
    boolean byHost = HostMounts.differFromOurs();
    if (byHost && HostMounts.areThoseOf(root)) {
      return Optional.empty();
    }
    OptionalInt inner = ProcFs.innermostPid(root);
    return Optional.of(new Search(byHost).run(root, inner.isPresent() && inner.getAsInt() == 1));
  }

  private TreeMounts without(Collection<External> named) {
    Map<Path, Path> others = new LinkedHashMap<>(bound);
    others
        .keySet()
        .removeIf(
            point -> named.stream().anyMatch(each -> each.text().startsWith("mnt[" + point + "]")));
    return new TreeMounts(
        others, hidden, files.stream().filter(each -> !named.contains(each)).toList(), isolated);
  }

  /** Returns whether the process has the root directory of this JVM; a container has another. */
  private static boolean hasOurRoot(int pid) {
    try {
      return Files.isSameFile(ProcFs.file(pid, "root"), ROOT);
    } catch (IOException unreadable) {
      return false;
    }
  }

  /** Compares the mounts of all mount namespaces of a tree with those that CRIU will have. */
  private static final class Search {

    private final boolean byHost;
    private final List<Mount> ours;
    private final Map<Path, Path> bound = new TreeMap<>();
    private final Set<Path> own = new HashSet<>();
    private final Set<String> hidden = new TreeSet<>();

    /**
     * Prepares a search.
     *
     * @param byHost whether CRIU works in the mount namespace of init
     */
    Search(boolean byHost) {
      this.byHost = byHost;
      this.ours = byHost ? HostMounts.mounts() : Mount.ours();
    }

    TreeMounts run(int root, boolean isolated) {
      Set<Optional<String>> namespaces = new HashSet<>();
      for (int pid : ProcFs.tree(root)) {
        if (namespaces.add(Namespaces.of(pid).get(Kind.MOUNT))) {
          look(pid);
        }
      }
      // CRIU knows a mount by its point alone.
      bound.keySet().removeAll(own);
      return new TreeMounts(
          bound,
          hidden,
          OutsideFile.of(root).stream().map(OutsideFile::external).toList(),
          isolated);
    }

    private void look(int pid) {
      Map<Path, Mount> visible = new LinkedHashMap<>();
      for (Mount mount : Mount.of(pid)) {
        Mount below = visible.put(mount.point(), mount);
        if (below != null && isOfHost(below)) {
          hidden.add(below.device());
        }
      }
      visible.remove(ROOT);
      visible.forEach(
          (point, mount) -> {
            Optional<Path> source = source(pid, mount);
            source.ifPresent(path -> bound.putIfAbsent(point, path));
            if (source.isEmpty() || !source.get().equals(bound.get(point))) {
              own.add(point);
            }
          });
    }

    private boolean isOfHost(Mount mount) {
      return ours.stream().anyMatch(each -> each.device().equals(mount.device()));
    }

    /** Returns our path of what is mounted there; the same one, if possible. */
    private Optional<Path> source(int pid, Mount mount) {
      List<Mount> same = ours.stream().filter(each -> each.shows(mount)).toList();
      if (same.stream().anyMatch(each -> isSame(each, mount) && isVisible(each))) {
        return Optional.of(mount.point());
      }
      Optional<FileNode> found = FileNode.at(NativePath.of(inTree(pid, mount.point())));
      return same.stream()
          .map(each -> each.pathOf(mount))
          .filter(path -> found.isPresent() && isSame(found.get(), path))
          .findFirst();
    }

    private static String inTree(int pid, Path point) {
      return ProcFs.file(pid, "root") + NativePath.text(point);
    }

    private static boolean isSame(Mount ours, Mount theirs) {
      return ours.point().equals(theirs.point()) && ours.root().equals(theirs.root());
    }

    private boolean isSame(FileNode file, Path path) {
      return FileNode.at(byHost ? HostMounts.seenFromHere(path) : path)
          .filter(other -> other.device() == file.device() && other.inode() == file.inode())
          .isPresent();
    }

    /** A later mount at or above its point covers a mount. */
    private boolean isVisible(Mount mount) {
      return ours.subList(ours.indexOf(mount) + 1, ours.size()).stream()
          .noneMatch(later -> mount.point().startsWith(later.point()));
    }
  }

  /** Returns the options of a dump that omits the host's mounts. */
  public DumpOptions with(DumpOptions options) {
    return options.toBuilder()
        .criu(
            c -> {
              named((point, name) -> c.external(External.mount(point, name)));
              files.forEach(c::external);
            })
        .build();
  }

  /** Calls back with each mount point, and the name that the image has for it. */
  private void named(BiConsumer<Path, String> each) {
    int number = 0;
    for (Path point : bound.keySet()) {
      each.accept(point, NAME.formatted(number++));
    }
  }

  /**
   * Takes the content of the host's tmpfs file systems that the tree does not see out of the image:
   * CRIU dumps what is mounted below another mount as well.
   *
   * @param images the directory of CRIU's finished images
   */
  public void removeHidden(Path images) {
    try {
      for (String device : hidden) {
        Path content = images.resolve(CONTENT.formatted(device.replaceFirst(NO_MAJOR, "")));
        if (device.startsWith(NO_MAJOR) && Files.deleteIfExists(content)) {
          Files.write(content, emptyArchive());
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(
          "the content of a file system that the process does not see cannot be removed from the image: "
              + e.getMessage(),
          e);
    }
  }

  private static byte[] emptyArchive() throws IOException {
    int blocks = 20 * 512;
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (GZIPOutputStream archive = new GZIPOutputStream(bytes)) {
      archive.write(new byte[blocks]);
    }
    return bytes.toByteArray();
  }

  /** Returns the mounts of an image; empty when its tree had no mount namespace of its own. */
  public static Optional<TreeMounts> of(ManifestData manifest) {
    ManifestData.Options options = manifest.options();
    List<String> host = options.hostMounts();
    Map<String, String> bound = options.boundMounts();
    if (host == null && bound == null) {
      return Optional.empty();
    }
    Map<Path, Path> all = new LinkedHashMap<>();
    if (bound != null) {
      bound.forEach((point, path) -> all.put(NativePath.of(point), NativePath.of(path)));
    } else if (host != null) {
      // An isolated process of an earlier version.
      host.forEach(point -> all.put(NativePath.of(point), NativePath.of(point)));
    }
    return Optional.of(new TreeMounts(all, Set.of(), List.of(), options.isIsolated()));
  }

  /** Returns the mount points of an isolated tree for the manifest; null for another tree. */
  @Nullable List<String> hostMounts() {
    return isolated ? bound.keySet().stream().map(NativePath::text).toList() : null;
  }

  /** Returns the mount points and their paths for the manifest. */
  Map<String, String> boundMounts() {
    return bound.entrySet().stream()
        .collect(
            Collectors.toMap(
                mount -> NativePath.text(mount.getKey()),
                mount -> NativePath.text(mount.getValue()),
                (one, other) -> one,
                LinkedHashMap::new));
  }

  /**
   * Returns the options of a restore that binds the mounts of this host.
   *
   * @throws ImageException with reason MISMATCH when this host lacks a mount point; nothing was
   *     done
   */
  public RestoreOptions with(int pid, RestoreOptions options) {
    bound.forEach(
        (point, path) -> {
          if (!HostMounts.have(path)) {
            throw new ImageException(
                ImageException.Reason.MISMATCH,
                "the process of the image had %s mounted%s, and this host has nothing there: create it; nothing was restored"
                    .formatted(path, point.equals(path) ? "" : " at " + point),
                Failure.of("restore", pid));
          }
        });
    return options.toBuilder()
        .criu(
            c -> {
              int number = 0;
              for (Path path : bound.values()) {
                c.external(External.restoredMount(NAME.formatted(number++), path));
              }
              if (!options.criu().isSet(CriuSwitch.ROOT)) {
                // Without it CRIU stops with "BUG at criu/mount.c".
                c.root(ROOT);
              }
            })
        .build();
  }
}
