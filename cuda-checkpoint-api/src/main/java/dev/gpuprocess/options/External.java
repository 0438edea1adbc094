package dev.gpuprocess.options;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * A resource that a tree uses but that is not part of it (CRIU {@code external}). A dump records it
 * under a name instead of refusing it; a restore puts another one in its place. Immutable.
 *
 * <p>The factories named {@code restored...} are for {@link dev.gpuprocess.options.RestoreOptions},
 * the others for {@link dev.gpuprocess.options.DumpOptions}. Files, terminals, sockets and
 * namespaces come back through {@link CriuOptions.Builder#inherit(String, Path)}.
 *
 * @param text as CRIU reads it, such as {@code mnt[/data]:data}
 */
public record External(String text) {

  /**
   * Checks the form.
   *
   * @throws IllegalArgumentException when it is not a kind with an id in brackets
   */
  public External {
    if (!text.matches("(?s)[a-z]+\\[.+\\](:.+)?")) {
      throw new IllegalArgumentException(
          "an external resource is written kind[id] or kind[id]:name, not " + text);
    }
  }

  /**
   * A bind mount from outside the tree's mount namespace.
   *
   * @param point where it is mounted in the tree
   * @param name what the image calls it
   * @return for a dump
   */
  public static External mount(Path point, String name) {
    return of("mnt", point.toString(), name);
  }

  /**
   * What replaces a bind mount from outside.
   *
   * @param name what the image calls it
   * @param source what is bind mounted, seen from CRIU
   * @return for a restore
   */
  public static External restoredMount(String name, Path source) {
    return of("mnt", name, source.toString());
  }

  /**
   * A block device that is mounted in the tree's mount namespace.
   *
   * @param major its major number
   * @param minor its minor number
   * @param name what the image calls it
   * @return for a dump
   */
  public static External device(int major, int minor, String name) {
    return of("dev", major + "/" + minor, name);
  }

  /**
   * What replaces a block device.
   *
   * @param name what the image calls it
   * @param device an existing block device
   * @return for a restore
   */
  public static External restoredDevice(String name, Path device) {
    return of("dev", name, device.toString());
  }

  /**
   * An open file that is not in the tree's mount namespace.
   *
   * @param mountId {@code mnt_id} in {@code /proc/PID/fdinfo/N}
   * @param inode its inode number
   * @return for a dump; the restore needs {@link CriuOptions.Builder#inherit(String, Path)}
   */
  public static External file(int mountId, long inode) {
    return of("file", Long.toHexString(mountId) + ":" + Long.toHexString(inode), null);
  }

  /**
   * A terminal from outside.
   *
   * @param rdev {@code st_rdev} of it
   * @param dev {@code st_dev} of it
   * @return for a dump; the restore needs {@link CriuOptions.Builder#inherit(String, Path)}
   */
  public static External terminal(long rdev, long dev) {
    return of("tty", Long.toHexString(rdev) + ":" + Long.toHexString(dev), null);
  }

  /**
   * A connected UNIX socket whose other end is outside the tree.
   *
   * @param inode its inode number, as in {@code /proc/PID/fd/N -> socket:[inode]}
   * @return for a dump; the restore needs {@link CriuOptions.Builder#inherit(String, Path)}
   */
  public static External unixSocket(long inode) {
    return of("unix", Long.toString(inode), null);
  }

  /**
   * A pipe whose other end is outside the tree. Without this a dump refuses it: CRIU would create a
   * new pipe at the restore, with no process at its other end.
   *
   * @param inode as in {@code /proc/PID/fd/N -> pipe:[inode]}
   * @return for a dump; the restore needs {@link CriuOptions.Builder#inherit(String, Path)}
   */
  public static External pipe(long inode) {
    return of("pipe", Long.toString(inode), null);
  }

  /**
   * A network namespace that is created and kept outside the tree.
   *
   * @param inode as in {@code /proc/PID/ns/net -> net:[inode]}
   * @param name what the image calls it
   * @return for a dump; the restore needs {@link CriuOptions.Builder#inherit(String, Path)}
   */
  public static External networkNamespace(long inode, String name) {
    return of("net", Long.toString(inode), name);
  }

  /**
   * A pid namespace that is created and kept outside the tree.
   *
   * @param inode as in {@code /proc/PID/ns/pid -> pid:[inode]}
   * @param name what the image calls it
   * @return for a dump; the restore needs {@link CriuOptions.Builder#inherit(String, Path)}
   */
  public static External pidNamespace(long inode, String name) {
    return of("pid", Long.toString(inode), name);
  }

  /**
   * Where the outer end of a pair of virtual network devices goes.
   *
   * @param inner the device in the tree's network namespace
   * @param outer the name of its other end
   * @param bridge what the other end is plugged into; null for nothing
   * @return for a restore
   */
  public static External restoredVeth(String inner, String outer, @Nullable String bridge) {
    return of("veth", inner, bridge == null ? outer : outer + "@" + bridge);
  }

  /**
   * The device that a macvlan device sits on.
   *
   * @param inner the device in the tree's network namespace
   * @param outer an existing network device
   * @return for a restore
   */
  public static External restoredMacvlan(String inner, String outer) {
    return of("macvlan", inner, outer);
  }

  private static External of(String kind, String id, @Nullable String value) {
    return new External(kind + "[" + id + "]" + (value == null ? "" : ":" + value));
  }
}
