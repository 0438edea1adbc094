package dev.gpuprocess.options;

import java.nio.file.Path;
import java.util.List;

/**
 * How the mounts of a tree with a mount namespace of its own are handled. Individual external
 * mounts are named with {@link External#mount}.
 *
 * @param autoDetect whether external bind mounts are detected and restored without being named
 *     (CRIU {@code external mnt[]})
 * @param allowShared whether such mounts may share their peer group with the outside (CRIU {@code
 *     enable-external-sharing})
 * @param allowMasters whether such mounts may be slaves of an outside mount (CRIU {@code
 *     enable-external-masters})
 * @param skipped mount points that are left out (CRIU {@code skip-mnt})
 * @param fileSystems types that are handled although CRIU does not know them, such as {@code
 *     squashfs}; {@code all} for every one (CRIU {@code enable-fs})
 */
public record Mounts(
    boolean autoDetect,
    boolean allowShared,
    boolean allowMasters,
    List<Path> skipped,
    List<String> fileSystems) {

  /** The default: CRIU refuses a mount that leads outside. */
  public static final Mounts STRICT = new Mounts(false, false, false, List.of(), List.of());

  /** External bind mounts are detected and kept, including shared and slave mounts. */
  public static final Mounts AUTOMATIC = new Mounts(true, true, true, List.of(), List.of());

  /** Copies the lists. */
  public Mounts {
    skipped = List.copyOf(skipped);
    fileSystems = List.copyOf(fileSystems);
  }

  /**
   * The same, without some mount points.
   *
   * @param points mount points that are left out
   * @return a copy
   */
  public Mounts skip(Path... points) {
    return new Mounts(autoDetect, allowShared, allowMasters, List.of(points), fileSystems);
  }

  /**
   * The same, with file systems that CRIU does not know.
   *
   * @param types such as {@code squashfs}
   * @return a copy
   */
  public Mounts enable(String... types) {
    return new Mounts(autoDetect, allowShared, allowMasters, skipped, List.of(types));
  }
}
