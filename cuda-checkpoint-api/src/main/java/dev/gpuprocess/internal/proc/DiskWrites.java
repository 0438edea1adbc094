package dev.gpuprocess.internal.proc;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;

/**
 * The number of writes that disks have completed ({@code /proc/diskstats}). A slow disk completes
 * some, a disk that hangs none. No file system is accessed to find that out.
 */
public final class DiskWrites {

  private static final Path DISKS = ProcFs.kernel("diskstats");

  /** File systems of servers, which do not use the local disks. */
  private static final Set<String> REMOTE =
      Set.of(
          ("nfs nfs4 cifs smb3 ceph 9p virtiofs afs lustre beegfs gpfs glusterfs ocfs2 gfs2"
                  + " orangefs fuse")
              .split(" "));

  private DiskWrites() {}

  /**
   * Counts the writes of the disk below a path, or of all disks if the file system, such as an
   * overlay, has no disk of its own.
   *
   * @param path an absolute path, of which links are not followed
   * @return empty for a file system of a server
   */
  public static OptionalLong below(Path path) {
    Path normal = path.normalize();
    // The nearest mount above the path, and the last of several at the same point.
    Optional<Mount> mount =
        Mount.ours().stream()
            .filter(each -> normal.startsWith(each.point()))
            .reduce((found, each) -> each.point().startsWith(found.point()) ? each : found);
    String type = mount.map(Mount::type).orElse("");
    if (REMOTE.contains(type) || type.startsWith("fuse.")) {
      return OptionalLong.empty();
    }
    Map<String, Long> writes = new HashMap<>();
    ProcFile.lines(DISKS, line -> add(line, writes));
    Long own = writes.get(mount.map(Mount::device).orElse(""));
    return OptionalLong.of(
        own != null ? own : writes.values().stream().mapToLong(Long::longValue).sum());
  }

  /** {@code 254 0 vda READS MERGED SECTORS MS WRITES ...}. */
  private static void add(String line, Map<String, Long> writes) {
    String[] disk = line.strip().split(" +");
    if (disk.length > 7) {
      writes.put(disk[0] + ":" + disk[1], Long.parseLong(disk[7]));
    }
  }
}
