package dev.gpuprocess.criu.internal.links;

import dev.gpuprocess.criu.internal.images.TreeReader;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.Credentials;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.OptionText;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CopyOnWriteArrayList;
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
    if (!options.criu().has(CriuSwitch.LINK_REMAP)) {
      return NONE;
    }
    try {
      if (!mountNamespace(root.pid()).equals(mountNamespace(ProcessHandle.current().pid()))) {
        return NONE;
      }
      List<Path> remapped = new TreeReader(images).linkRemaps();
      List<HeldLink> held =
          remapped.isEmpty()
              ? List.of()
              : UntrustedPaths.ours(
                  options.deadline(), paths -> held(paths, remapped, images, root, options));
      write(held, images.resolve(INDEX));
      return new HeldLinks(held);
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.UNWRITABLE,
          "the unlinked files that process %s has open cannot be copied into the image: %s"
              .formatted(root.pid(), e),
          Failure.of("dump", root.pid()),
          e);
    }
  }

  /**
   * Copies the files. The owner of the tree can replace everything at these paths at any moment.
   */
  private static List<HeldLink> held(
      UntrustedPaths paths,
      List<Path> remapped,
      Path images,
      ProcessIdentity root,
      DumpOptions options)
      throws IOException {
    List<Integer> tree = ProcFs.tree(root.pid());
    List<HeldLink> held = new ArrayList<>();
    for (Path link : remapped) {
      Optional<OpenedFile> found = paths.read(link);
      if (found.isPresent()) {
        try (OpenedFile file = found.get()) {
          Credentials user =
              Holder.of(file.node(), tree)
                  .orElseThrow(() -> new IOException(link + " is not a file that it has open"));
          if (isToBeHeld(link, file.node(), root, options)) {
            Path content = images.resolve(CONTENT + held.size());
            copy(file, content);
            held.add(new HeldLink(link, file.node(), user, otherNames(paths, link, file), content));
          }
        }
      }
    }
    return held;
  }

  private static List<String> otherNames(UntrustedPaths paths, Path link, OpenedFile file)
      throws IOException {
    String own = String.valueOf(link.getFileName());
    return paths.names(Objects.requireNonNull(link.getParent()), file.node()).stream()
        .filter(name -> !name.equals(own))
        .toList();
  }

  private static Path mountNamespace(long pid) throws IOException {
    return Files.readSymbolicLink(ProcFs.file(pid, "ns", "mnt"));
  }

  private static boolean isToBeHeld(
      Path link, FileNode file, ProcessIdentity root, DumpOptions options) {
    if (file.bytes() <= options.criu().get(CriuSwitch.GHOST_LIMIT)) {
      return true;
    }
    if (options.leaveRunning()) {
      throw new ImageException(
          ImageException.Reason.NOT_DUMPED,
          "process %s has an unlinked file of %s MiB in %s open, which is larger than the ghost limit: use %s"
              .formatted(
                  root.pid(),
                  file.bytes() >> 20,
                  link.getParent(),
                  OptionText.criu("ghost-limit=" + file.bytes())),
          Failure.of("dump", root.pid()));
    }
    LOG.warn("{} is larger than the ghost limit, so the image can be restored only once", link);
    return false;
  }

  private static void copy(OpenedFile from, Path to) throws IOException {
    Files.createFile(
        to, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    try (OutputStream out = Files.newOutputStream(to, StandardOpenOption.WRITE)) {
      from.copyTo(out);
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
      all.setProperty(prefix + "mode", Integer.toString(link.file().permissions()));
      all.setProperty(prefix + "owner", Integer.toString(link.file().user()));
      all.setProperty(prefix + "group", Integer.toString(link.file().group()));
      all.setProperty(prefix + "size", Long.toString(link.file().bytes()));
      all.setProperty(prefix + "user", link.user().toString());
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
    int owner = Math.toIntExact(number(all, prefix + "owner"));
    int group = Math.toIntExact(number(all, prefix + "group"));
    return new HeldLink(
        Path.of(all.getProperty(prefix + "link")),
        new FileNode(
            number(all, prefix + "device"),
            number(all, prefix + "inode"),
            Math.toIntExact(number(all, prefix + "mode")),
            0,
            number(all, prefix + "size"),
            0,
            owner,
            group),
        Credentials.parse(all.getProperty(prefix + "user", owner + ":" + group + ":"))
            .orElseThrow(IllegalArgumentException::new),
        names.isEmpty() ? List.of() : List.of(names.split("/")),
        content);
  }

  private static long number(Properties all, String name) {
    return Long.parseLong(all.getProperty(name, ""));
  }

  /**
   * Puts back the links that are missing.
   *
   * @param limit how long to wait for a file system
   * @return the links that were put back; close it after the restore
   * @throws IOException if one cannot be put back; then none is
   */
  public Placed putBack(Duration limit) throws IOException {
    Placed placed = new Placed(limit);
    try {
      for (HeldLink link : links) {
        link.putBack(limit, (path, file) -> placed.made.add(new Made(link, path, file)));
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
   *
   * @param limit how long to wait for a file system
   */
  public void removeLinks(Duration limit) {
    for (HeldLink link : links) {
      if (!link.names().isEmpty()) {
        try {
          boolean unused =
              UntrustedPaths.ours(limit, paths -> removed(paths, link.link(), link.file()));
        } catch (IOException e) {
          LOG.warn("{} could not be removed: {}", link.link(), e.toString());
        }
      }
    }
  }

  private static boolean removed(UntrustedPaths paths, Path path, FileNode file)
      throws IOException {
    paths.remove(path, file);
    return true;
  }

  private record Made(HeldLink link, Path path, FileNode file) {

    boolean isLink() {
      return path.equals(link.link());
    }
  }

  /** Links that were put back for a restore. */
  public static final class Placed {

    private final Duration limit;
    private final List<Made> made = new CopyOnWriteArrayList<>();

    private Placed(Duration limit) {
      this.limit = limit;
    }

    /** The tree was restored: removes the links that CRIU has not consumed. */
    public void restored() {
      made.stream().filter(Made::isLink).forEach(this::remove);
    }

    /** The tree was not restored: removes everything that was created. */
    public void failed() {
      made.forEach(this::remove);
    }

    private void remove(Made each) {
      try {
        boolean unused = each.link().work(limit, paths -> removed(paths, each.path(), each.file()));
      } catch (IOException e) {
        LOG.warn("{} could not be removed: {}", each.path(), e.toString());
      }
    }
  }
}
