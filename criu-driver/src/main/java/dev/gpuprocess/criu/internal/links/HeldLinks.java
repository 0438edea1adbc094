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
 * The files without a name of their own that a tree has open ({@code link-remap}), held by the
 * images. CRIU leaves links to them where the tree runs and names these in the images: it removes
 * them when the tree runs on, a restore uses them up, and the next dump in the same directory may
 * want the same names. So the images hold the content, and a restore puts the links back.
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
   * Copies what the links of a finished dump lead to, while they are there and the tree stands
   * still. Of a tree with a mount namespace of its own nothing is copied: its paths mean something
   * else here.
   *
   * @throws ImageException when it cannot be done
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
          "the files without a name that process %s has open cannot be copied into the image: %s"
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
          "process %s has a file of %s MiB in %s open that has no name any more, more than an image takes: raise DumpOptions.ghostLimit"
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
   * Reads what images hold.
   *
   * @throws IOException when the list is damaged
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
   * Puts the links back that are not there.
   *
   * @return what was put back; close it after the restore
   * @throws IOException when one cannot be put back; then none is
   */
  public Placed putBack() throws IOException {
    Placed placed = new Placed();
    try {
      for (HeldLink link : links) {
        placed.add(link.putBack());
      }
      return placed;
    } catch (IOException e) {
      placed.failed();
      throw e;
    }
  }

  /**
   * Removes CRIU's links of a dump that has ended: another dump may want their names. One that is
   * the last name of its file here stays, as others may know the file from elsewhere.
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

    private void add(List<Path> made) {
      if (!made.isEmpty()) {
        links.add(made.get(0));
        others.addAll(made.subList(1, made.size()));
      }
    }

    /** The tree has its files: removes what CRIU did not use up. */
    public void restored() {
      remove(links);
    }

    /** There is no tree: removes all that was made. */
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
