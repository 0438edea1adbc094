package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.criu.proto.Images.file_entry;
import dev.gpuprocess.criu.proto.Images.inventory_entry;
import dev.gpuprocess.criu.proto.Images.pstree_entry;
import dev.gpuprocess.criu.proto.Images.task_kobj_ids_entry;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.image.DumpedProcess;
import dev.gpuprocess.image.DumpedTree;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.ToIntFunction;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Reads a tree from its image files. */
public final class TreeReader {

  private static final Map<String, ToIntFunction<task_kobj_ids_entry>> NAMESPACES =
      Map.of(
          "pid", task_kobj_ids_entry::getPidNsId,
          "net", task_kobj_ids_entry::getNetNsId,
          "ipc", task_kobj_ids_entry::getIpcNsId,
          "uts", task_kobj_ids_entry::getUtsNsId,
          "mnt", task_kobj_ids_entry::getMntNsId,
          "user", task_kobj_ids_entry::getUserNsId,
          "cgroup", task_kobj_ids_entry::getCgroupNsId,
          "time", task_kobj_ids_entry::getTimeNsId);

  private static final Pattern LINK_REMAP = Pattern.compile("link_remap\\.\\d+");

  private final Path images;

  /**
   * Creates a reader.
   *
   * @param images the directory
   */
  public TreeReader(Path images) {
    this.images = images;
  }

  /**
   * Reads the tree.
   *
   * @param pageSize the page size of the machine that dumped the tree, in bytes
   * @param report the statistics of the dump, or null if there are none
   * @return the tree
   * @throws ImageException with reason CORRUPT if a file is missing, truncated or altered
   */
  public DumpedTree read(long pageSize, @Nullable DumpReport report) {
    try {
      return tree(pageSize, report);
    } catch (NoSuchFileException e) {
      throw corrupt(e.getFile() + " is missing", e);
    } catch (IOException e) {
      throw corrupt(String.valueOf(e.getMessage()), e);
    }
  }

  private static ImageException corrupt(String what, IOException cause) {
    return new ImageException(
        ImageException.Reason.CORRUPT,
        "the images cannot be read: " + what,
        Failure.of("describe", 0),
        cause);
  }

  private DumpedTree tree(long pageSize, @Nullable DumpReport report) throws IOException {
    inventory_entry inventory = inventory();
    ProcessReader reader = new ProcessReader(images, pageSize);
    List<DumpedProcess> processes = new ArrayList<>();
    Set<Integer> pids = new HashSet<>();
    for (pstree_entry entry : entries()) {
      if (!pids.add(entry.getPid())) {
        throw new BadImageException(
            images.resolve("pstree.img") + " has process " + entry.getPid() + " twice");
      }
      processes.add(reader.read(entry));
    }
    if (processes.isEmpty()) {
      throw new BadImageException(images.resolve("pstree.img") + " has no process");
    }
    return new DumpedTree(
        inventory.getImgVersion(),
        Duration.of(inventory.getDumpUptime(), ChronoUnit.MICROS),
        inventory.getTcpClose(),
        inventory.getPluginsEntry().getPluginsList(),
        namespaces(reader.ids(processes.get(0).pid()), inventory.getRootIds()),
        processes,
        report);
  }

  /**
   * The pid of the root in its own pid namespace; it is 1 only if the tree has one of its own.
   *
   * @return the first process in {@code pstree.img}
   * @throws IOException when the file is missing, cut off or altered
   */
  public int rootPid() throws IOException {
    return ImageFileReader.only(
            images.resolve("pstree.img"), ImageFileReader.Kind.PSTREE, pstree_entry.parser())
        .getPid();
  }

  /**
   * Returns the capabilities that all processes of the tree can have.
   *
   * @return one bit for each capability, by its number
   * @throws IOException when a file is missing, cut off or altered
   */
  public long commonBoundingSet() throws IOException {
    long common = -1;
    for (pstree_entry entry : entries()) {
      common &= ProcessReader.boundingSet(images, entry.getPid());
    }
    return common;
  }

  private List<pstree_entry> entries() throws IOException {
    return ImageFileReader.all(
        images.resolve("pstree.img"), ImageFileReader.Kind.PSTREE, pstree_entry.parser());
  }

  /**
   * Returns the hard links that CRIU created for open files whose own name is gone ({@code
   * link-remap}). The images contain only their names.
   *
   * @return absolute paths, as the tree sees them
   * @throws IOException if {@code files.img} cannot be read
   */
  public List<Path> linkRemaps() throws IOException {
    return ImageFileReader.all(
            images.resolve("files.img"), ImageFileReader.Kind.FILES, file_entry.parser())
        .stream()
        .filter(file_entry::hasReg)
        .map(entry -> Path.of("/").resolve(entry.getReg().getName()))
        .filter(path -> LINK_REMAP.matcher(String.valueOf(path.getFileName())).matches())
        .distinct()
        .toList();
  }

  /**
   * The CRIU plugins that took part in the dump.
   *
   * @return their names, such as {@code cuda_plugin}
   * @throws IOException when the file is missing, cut off or altered
   */
  public List<String> plugins() throws IOException {
    return inventory().getPluginsEntry().getPluginsList();
  }

  private inventory_entry inventory() throws IOException {
    return ImageFileReader.only(
        images.resolve("inventory.img"), ImageFileReader.Kind.INVENTORY, inventory_entry.parser());
  }

  private static Set<String> namespaces(task_kobj_ids_entry root, task_kobj_ids_entry criu) {
    Set<String> own = new TreeSet<>();
    NAMESPACES.forEach(
        (name, id) -> {
          if (id.applyAsInt(root) != id.applyAsInt(criu)) {
            own.add(name);
          }
        });
    return own;
  }
}
