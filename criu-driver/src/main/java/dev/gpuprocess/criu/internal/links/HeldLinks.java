package dev.gpuprocess.criu.internal.links;

import dev.gpuprocess.criu.internal.images.LinkRemaps;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The files that a tree has open under names that no longer exist ({@code link-remap}), kept with
 * the images. CRIU creates links to them in their directories and stores only the names of these
 * links in the images. It removes the links if the tree runs on, a restore consumes them, and the
 * next dump in the same directory may need the same names. So the content is kept with the images,
 * and a restore puts the links back.
 */
public final class HeldLinks {

  private static final Logger LOG = LoggerFactory.getLogger(HeldLinks.class);

  private static final String INDEX = "held-links.properties";
  private static final String CONTENT = "held-link-";

  private final List<HeldLink> links;

  private HeldLinks(List<HeldLink> links) {
    this.links = List.copyOf(links);
  }

  public static final HeldLinks NONE = new HeldLinks(List.of());

  /**
   * Copies the files behind the links of a finished dump, while the links exist and the tree is
   * still stopped. Nothing is copied for a tree with a mount namespace of its own: its paths mean
   * something else here.
   *
   * @throws ImageException if they cannot be copied
   */
  public static HeldLinks hold(Path images, ProcessIdentity root, DumpOptions options) {
    if (!options.linkRemap()) {
      return NONE;
    }
    try {
      if (!mountNamespace(root.pid()).equals(mountNamespace(ProcessHandle.current().pid()))) {
        return NONE;
      }
      List<HeldLink> held = new ArrayList<>();
      for (Path link : LinkRemaps.in(images)) {
        Optional<FileIdentity> file = FileIdentity.of(link);
        if (file.isPresent() && isToBeHeld(link, file.get(), root, options)) {
          Path content = images.resolve(CONTENT + held.size());
          copy(link, content);
          held.add(new HeldLink(link, file.get(), HeldLink.otherNames(link, file.get()), content));
        }
      }
      write(held, images.resolve(INDEX));
      return new HeldLinks(held);
    } catch (IOException e) {
      throw new ImageException(
          "the unlinked files that process %s has open cannot be copied into the image: %s"
              .formatted(root.pid(), e),
          Failure.of("dump", root.pid()),
          e);
    }
  }

  private static Path mountNamespace(long pid) throws IOException {
    return Files.readSymbolicLink(Path.of("/proc", Long.toString(pid), "ns", "mnt"));
  }

  private static boolean isToBeHeld(
      Path link, FileIdentity file, ProcessIdentity root, DumpOptions options) {
    if (file.size() <= options.ghostLimit()) {
      return true;
    }
    if (options.leaveRunning()) {
      throw new ImageException(
          "process %s has an unlinked file of %s MiB in %s open, which is larger than the ghost limit: raise DumpOptions.ghostLimit"
              .formatted(root.pid(), file.size() >> 20, link.getParent()),
          Failure.of("dump", root.pid()));
    }
    LOG.warn("{} is larger than the ghost limit, so the image can be restored only once", link);
    return false;
  }

  private static void copy(Path from, Path to) throws IOException {
    Files.createFile(
        to, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    try (InputStream in = Files.newInputStream(from);
        OutputStream out = Files.newOutputStream(to, StandardOpenOption.WRITE)) {
      in.transferTo(out);
    }
  }

  private static void write(List<HeldLink> held, Path index) throws IOException {
    if (held.isEmpty()) {
      return;
    }
    Properties all = new Properties();
    for (int i = 0; i < held.size(); i++) {
      HeldLink link = held.get(i);
      String prefix = i + ".";
      all.setProperty(prefix + "link", link.link().toString());
      all.setProperty(prefix + "device", Long.toString(link.file().device()));
      all.setProperty(prefix + "inode", Long.toString(link.file().inode()));
      all.setProperty(prefix + "mode", Integer.toString(link.file().mode()));
      all.setProperty(prefix + "owner", Integer.toString(link.file().owner()));
      all.setProperty(prefix + "group", Integer.toString(link.file().group()));
      all.setProperty(prefix + "size", Long.toString(link.file().size()));
      all.setProperty(prefix + "names", String.join("/", link.names()));
    }
    try (OutputStream out =
        Files.newOutputStream(index, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      all.store(out, null);
    }
    Files.setPosixFilePermissions(index, PosixFilePermissions.fromString("rw-------"));
  }

  /**
   * Reads the files kept with images.
   *
   * @throws IOException if the list is damaged
   */
  public static HeldLinks in(Path images) throws IOException {
    Path index = images.resolve(INDEX);
    if (!Files.exists(index)) {
      return NONE;
    }
    Properties all = new Properties();
    try (InputStream in = Files.newInputStream(index)) {
      all.load(in);
    }
    List<HeldLink> held = new ArrayList<>();
    try {
      for (int i = 0; all.getProperty(i + ".link") != null; i++) {
        held.add(read(all, i + ".", images.resolve(CONTENT + i)));
      }
    } catch (IllegalArgumentException e) {
      throw new IOException(index + " is damaged: " + e, e);
    }
    return new HeldLinks(held);
  }

  private static HeldLink read(Properties all, String prefix, Path content) {
    String names = all.getProperty(prefix + "names", "");
    return new HeldLink(
        Path.of(all.getProperty(prefix + "link")),
        new FileIdentity(
            number(all, prefix + "device"),
            number(all, prefix + "inode"),
            Math.toIntExact(number(all, prefix + "mode")),
            Math.toIntExact(number(all, prefix + "owner")),
            Math.toIntExact(number(all, prefix + "group")),
            number(all, prefix + "size")),
        names.isEmpty() ? List.of() : List.of(names.split("/")),
        content);
  }

  private static long number(Properties all, String name) {
    return Long.parseLong(all.getProperty(name, ""));
  }

  /**
   * Puts back the links that are missing.
   *
   * @return what was put back; close it after the restore
   * @throws IOException if one cannot be put back; then none is
   */
  public Placed putBack() throws IOException {
    Placed placed = new Placed();
    try {
      for (HeldLink link : links) {
        placed.putBack(link);
      }
      return placed;
    } catch (IOException | RuntimeException e) {
      placed.failed();
      throw e;
    }
  }

  /**
   * Removes the links that CRIU created for a finished dump, as another dump may need their names.
   * A link that is the only name of its file in its directory stays, as others may know the file by
   * a name elsewhere.
   */
  public void removeLinks() {
    for (HeldLink link : links) {
      try {
        boolean same = FileIdentity.of(link.link()).filter(link.file()::isSameFile).isPresent();
        if (same && !link.names().isEmpty()) {
          Files.delete(link.link());
        }
      } catch (IOException e) {
        LOG.warn("{} could not be removed: {}", link.link(), e.toString());
      }
    }
  }

  /** Links that were put back for a restore. */
  public static final class Placed {

    private final List<Path> links = new ArrayList<>();
    private final List<Path> others = new ArrayList<>();

    private void putBack(HeldLink link) throws IOException {
      List<Path> made = new ArrayList<>();
      try {
        link.putBack(made);
      } finally {
        for (Path path : made) {
          (path.equals(link.link()) ? links : others).add(path);
        }
      }
    }

    /** The tree was restored: removes the links that CRIU has not consumed. */
    public void restored() {
      remove(links);
    }

    /** The tree was not restored: removes everything that was created. */
    public void failed() {
      remove(links);
      remove(others);
    }

    private static void remove(List<Path> made) {
      for (Path path : made) {
        try {
          Files.deleteIfExists(path);
        } catch (IOException e) {
          LOG.warn("{} could not be removed: {}", path, e.toString());
        }
      }
    }
  }
}
