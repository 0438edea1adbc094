package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.criu.internal.images.ImageFileReader.Kind;
import dev.gpuprocess.criu.proto.Images.core_entry;
import dev.gpuprocess.criu.proto.Images.inventory_entry;
import dev.gpuprocess.criu.proto.Images.mm_entry;
import dev.gpuprocess.criu.proto.Images.pstree_entry;
import dev.gpuprocess.criu.proto.Images.task_kobj_ids_entry;
import dev.gpuprocess.error.UnsupportedResource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds what CRIU wrote and cannot restore: a user namespace of a root that is not a container with
 * mounts and pids of its own, a mount or network namespace of a child whose root has none of its
 * own, an executed memfd, and a stopped process in the group of a root that does not lead its
 * session. The preflight finds the same in {@code /proc}, as far as this user may read it there,
 * and as long as no process changes.
 */
public final class RestoreObstacles {

  private static final Logger LOG = LoggerFactory.getLogger(RestoreObstacles.class);

  /** The state of a task that a signal has stopped. */
  private static final int STOPPED = 3;

  private final Path images;
  private final task_kobj_ids_entry criu;
  private final List<UnsupportedResource> found = new ArrayList<>();

  private RestoreObstacles(Path images) throws IOException {
    this.images = images;
    this.criu =
        ImageFileReader.only(
                images.resolve("inventory.img"), Kind.INVENTORY, inventory_entry.parser())
            .getRootIds();
  }

  /**
   * Reads complete images.
   *
   * @param images the directory
   * @return what prevents a restore; the pids are those of the images
   * @throws IOException when a file is missing, cut off or altered
   */
  public static List<UnsupportedResource> in(Path images) throws IOException {
    RestoreObstacles obstacles = new RestoreObstacles(images);
    obstacles.look();
    return List.copyOf(obstacles.found);
  }

  private void look() throws IOException {
    FileTable files = new FileTable(images);
    task_kobj_ids_entry root = null;
    pstree_entry first = null;
    for (pstree_entry entry :
        ImageFileReader.all(images.resolve("pstree.img"), Kind.PSTREE, pstree_entry.parser())) {
      int pid = entry.getPid();
      Path memory = images.resolve("mm-" + pid + ".img");
      Path file = images.resolve("ids-" + pid + ".img");
      if (!Files.exists(memory) || !Files.exists(file)) {
        continue; // a zombie
      }
      task_kobj_ids_entry ids = ImageFileReader.only(file, Kind.IDS, task_kobj_ids_entry.parser());
      if (root == null || first == null) {
        root = ids;
        first = entry;
        lookAtRoot(pid, ids);
      }
      lookAtChild(pid, ids, root);
      lookAtState(entry, first);
      int program = ImageFileReader.only(memory, Kind.MM, mm_entry.parser()).getExeFileId();
      if (!files.hasFile(program)) {
        add(pid, "program", "a program without a file, such as a memfd");
      }
    }
  }

  private void lookAtRoot(int pid, task_kobj_ids_entry root) {
    boolean isContainer =
        root.getMntNsId() != criu.getMntNsId() && root.getPidNsId() != criu.getPidNsId();
    if (root.getUserNsId() != criu.getUserNsId() && !isContainer) {
      add(pid, "namespace user", "a user namespace of its own");
    }
  }

  private void lookAtChild(int pid, task_kobj_ids_entry ids, task_kobj_ids_entry root) {
    if (ids.getMntNsId() != root.getMntNsId() && root.getMntNsId() == criu.getMntNsId()) {
      add(pid, "namespace mnt", "a mount namespace that the root does not share");
    }
    if (ids.getNetNsId() != root.getNetNsId() && root.getNetNsId() == criu.getNetNsId()) {
      add(pid, "namespace net", "a network namespace that the root does not share");
    }
  }

  /** The kernel sends SIGHUP to the group of such a root when CRIU exits after a restore. */
  private void lookAtState(pstree_entry task, pstree_entry root) throws IOException {
    Path file = images.resolve("core-" + task.getPid() + ".img");
    core_entry core = ImageFileReader.only(file, Kind.CORE, core_entry.parser());
    if (core.getTc().getTaskState() != STOPPED) {
      return;
    }
    if (root.getSid() != root.getPid() && task.getPgid() == root.getPgid()) {
      add(
          task.getPid(),
          "process group " + task.getPgid(),
          "a stopped process in the group of a root that does not lead its session");
    } else {
      LOG.warn("process {} is stopped (SIGSTOP) in the image, and is restored so", task.getPid());
    }
  }

  private void add(int pid, String handle, String name) {
    found.add(new UnsupportedResource(UnsupportedResource.Kind.OTHER, pid, handle, name, null));
  }
}
