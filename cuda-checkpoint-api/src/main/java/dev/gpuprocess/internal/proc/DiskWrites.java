package dev.gpuprocess.internal.proc;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;

/**
 * The number of writes that disks have completed ({@code /proc/diskstats}). A slow disk completes
 * some, a disk that hangs none. No file system is accessed to find that out.
 */
public final class DiskWrites {

  private static final Path MOUNTS = Path.of("/proc/self/mountinfo");
  private static final Path DISKS = Path.of("/proc/diskstats");

  /** File systems of servers: what local disks do says nothing about them. */
  private static final Set<String> REMOTE =
      Set.of(
          "nfs",
          "nfs4",
          "cifs",
          "smb3",
          "ceph",
          "9p",
          "virtiofs",
          "afs",
          "lustre",
          "beegfs",
          "gpfs",
          "glusterfs",
          "ocfs2",
          "gfs2",
          "orangefs",
          "fuse");

  private static final int DEVICE = 2;
  private static final int POINT = 4;

  private Path point = Path.of("/");
  private String device = "";
  private String type = "";

  private DiskWrites() {}

  /**
   * Counts the writes of the disk below a path; those of all disks where a file system, such as an
   * overlay, does not tell its disk.
   *
   * @param path an absolute path, of which links are not followed
   * @return empty for a file system of a server
   */
  public static OptionalLong below(Path path) {
    DiskWrites disk = new DiskWrites();
    Path normal = path.normalize();
    ProcFile.lines(MOUNTS, line -> disk.look(line, normal));
    if (REMOTE.contains(disk.type) || disk.type.startsWith("fuse.")) {
      return OptionalLong.empty();
    }
    Map<String, Long> writes = new HashMap<>();
    ProcFile.lines(DISKS, line -> add(line, writes));
    Long own = writes.get(disk.device);
    return OptionalLong.of(
        own != null ? own : writes.values().stream().mapToLong(Long::longValue).sum());
  }

  /** {@code 41 31 254:0 / /home rw,relatime shared:1 - ext4 /dev/vda rw}; the last mount counts. */
  private void look(String line, Path path) {
    String[] mount = line.split(" ");
    int dash = line.indexOf(" - ");
    if (mount.length <= POINT || dash < 0) {
      return;
    }
    Path place = Path.of(CgroupMounts.text(mount[POINT]));
    if (path.startsWith(place) && place.startsWith(point)) {
      point = place;
      device = mount[DEVICE];
      type = line.substring(dash + " - ".length()).split(" ")[0];
    }
  }

  /** {@code 254 0 vda READS MERGED SECTORS MS WRITES ...}. */
  private static void add(String line, Map<String, Long> writes) {
    String[] disk = line.strip().split(" +");
    if (disk.length > 7) {
      writes.put(disk[0] + ":" + disk[1], Long.parseLong(disk[7]));
    }
  }
}
