package dev.gpuprocess.internal.extras;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.HostMounts;
import dev.gpuprocess.internal.proc.Mount;
import dev.gpuprocess.internal.proc.Namespaces;
import dev.gpuprocess.internal.proc.Namespaces.Kind;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.options.External;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * An open file that a tree with a mount namespace of its own opened outside of it, such as the
 * standard files of a job: CRIU has no mount for its path. A restore opens it again by the path
 * that the host has for it.
 *
 * @param mount the id of its mount
 * @param device its file system
 * @param inode its number there
 * @param number the device number, if it is a device
 * @param flags how it was opened, as for {@code open}
 * @param position where the next byte is read or written
 * @param bytes the size of a regular file; 0 for a device
 * @param path its path outside of the namespace
 */
public record OutsideFile(
    int mount,
    long device,
    long inode,
    long number,
    int flags,
    long position,
    long bytes,
    Path path) {

  private static final Pattern LINE =
      Pattern.compile(
          "outside (\\d{1,9}) (\\d{1,18}) (\\d{1,18}) (\\d{1,18}) (\\d{1,9}) (\\d{1,18}) (\\d{1,18}) ([0-9a-f]+)");

  private static final Pattern MOUNT = Pattern.compile("(?m)^mnt_id:\\s*(\\d{1,9})$");
  private static final Pattern POSITION = Pattern.compile("(?m)^pos:\\s*(\\d{1,18})$");

  private static final int ACCESS = 3;
  private static final int READ_AND_WRITE = 2;
  private static final int APPEND = 02000;
  private static final int MEMORY_DEVICES = 1;

  /**
   * Finds the files of a tree, without those that a restore could not open as they were.
   *
   * @param root of the tree, which may run or be frozen
   */
  public static List<OutsideFile> of(int root) {
    Map<External, OutsideFile> found = new LinkedHashMap<>();
    Set<External> different = new HashSet<>();
    Set<Integer> mounts = new HashSet<>();
    List<Integer> tree = ProcFs.tree(root);
    Set<Optional<String>> namespaces = new HashSet<>();
    for (int pid : tree) {
      if (namespaces.add(Namespaces.of(pid).get(Kind.MOUNT))) {
        mounts.addAll(Mount.ids(pid));
      }
    }
    for (int pid : tree) {
      for (OpenFile open : OpenFile.of(pid, each -> each.target().startsWith("/"))) {
        one(pid, open, mounts)
            .ifPresent(
                file -> {
                  OutsideFile before = found.putIfAbsent(file.external(), file);
                  if (before != null && !before.equals(file)) {
                    before
                        .with(file)
                        .ifPresentOrElse(
                            both -> found.put(file.external(), both),
                            () -> different.add(file.external()));
                  }
                });
      }
    }
    found.keySet().removeAll(different);
    return new ArrayList<>(found.values());
  }

  private static Optional<OutsideFile> one(int pid, OpenFile open, Set<Integer> mounts) {
    String info = ProcFs.read(pid, "fdinfo/" + open.number()).orElse("");
    Matcher mount = MOUNT.matcher(info);
    Matcher position = POSITION.matcher(info);
    if (!mount.find() || !position.find() || mounts.contains(Integer.valueOf(mount.group(1)))) {
      return Optional.empty();
    }
    Optional<FileNode> node =
        FileNode.at(ProcFs.file(pid, "fd", Integer.toString(open.number())))
            .filter(each -> each.isRegular() || isMemoryDevice(each));
    Optional<Path> path = path(open.target());
    if (node.isEmpty() || path.isEmpty() || !isAt(path.get(), node.get())) {
      return Optional.empty();
    }
    int kept = OpenFile.flags(pid, open.number()).orElse(READ_AND_WRITE) & (ACCESS | APPEND);
    return Optional.of(
        new OutsideFile(
            Integer.parseInt(mount.group(1)),
            node.get().device(),
            node.get().inode(),
            node.get().isRegular() ? 0 : node.get().number(),
            kept,
            node.get().isRegular() ? Long.parseLong(position.group(1)) : 0,
            node.get().isRegular() ? node.get().bytes() : 0,
            path.get()));
  }

  private static boolean isMemoryDevice(FileNode node) {
    return node.isCharacterDevice() && node.major() == MEMORY_DEVICES;
  }

  private static Optional<Path> path(String target) {
    try {
      return Optional.of(NativePath.of(target));
    } catch (InvalidPathException unmappable) {
      return Optional.empty();
    }
  }

  private static boolean isAt(Path path, FileNode file) {
    return HostMounts.candidates(path).stream()
        .flatMap(each -> FileNode.at(each).stream())
        .anyMatch(each -> each.device() == file.device() && each.inode() == file.inode());
  }

  /** Returns the file opened for both; empty if one descriptor cannot stand for both. */
  private Optional<OutsideFile> with(OutsideFile other) {
    boolean isSame = position == other.position && (flags & APPEND) == (other.flags & APPEND);
    int access = (flags & ACCESS) == (other.flags & ACCESS) ? flags & ACCESS : READ_AND_WRITE;
    return isSame
        ? Optional.of(
            new OutsideFile(
                mount, device, inode, number, (flags & APPEND) | access, position, bytes, path))
        : Optional.empty();
  }

  /** Returns how a dump and its restore name the file. */
  public External external() {
    return External.file(mount, inode);
  }

  /**
   * Opens the file for a restore.
   *
   * @param pid the process of the image
   * @return a descriptor
   * @throws ImageException with reason MISMATCH when it is not there, or has changed
   */
  public int open(int pid) {
    Path here =
        HostMounts.candidates(path).stream()
            .filter(each -> FileNode.at(each).isPresent())
            .findFirst()
            .orElse(path);
    int held = -1;
    try {
      // Nothing is opened by a path that may lead elsewhere now.
      held = Descriptors.hold(here);
      Path file = ProcFs.descriptor(held);
      Optional<FileNode> now = FileNode.at(file);
      if (now.isEmpty() || !isSame(now.get())) {
        throw mismatch(pid, "is another file now", null);
      }
      boolean mayGrow = (flags & APPEND) != 0;
      if (mayGrow ? now.get().bytes() < bytes : now.get().bytes() != bytes) {
        throw mismatch(
            pid, "has %s bytes now, and had %s".formatted(now.get().bytes(), bytes), null);
      }
      return Descriptors.openAgain(file, flags, position);
    } catch (IOException e) {
      throw mismatch(pid, "cannot be opened: " + e.getMessage(), e);
    } finally {
      Descriptors.close(held);
    }
  }

  /** The numbers of a file system without a disk change with each boot, as those of devices do. */
  private boolean isSame(FileNode now) {
    if (number != 0) {
      return now.isCharacterDevice() && now.number() == number;
    }
    boolean onSameDisk =
        now.device() == device || (isWithoutDisk(device) && isWithoutDisk(now.device()));
    return now.isRegular() && now.inode() == inode && onSameDisk;
  }

  private static boolean isWithoutDisk(long device) {
    return (device >> 8 & 0xfff) == 0;
  }

  private ImageException mismatch(int pid, String why, @Nullable IOException cause) {
    return new ImageException(
        ImageException.Reason.MISMATCH,
        "%s, which process %s of the image had open, %s: put it back; nothing was restored"
            .formatted(Printable.of(path.toString()), pid, why),
        Failure.of("restore", pid),
        cause);
  }

  /** Parses the text of {@link #toString}. */
  static Optional<OutsideFile> parse(String line) {
    Matcher parts = LINE.matcher(line);
    return parts.matches()
        ? Optional.of(
            new OutsideFile(
                Integer.parseInt(parts.group(1)),
                Long.parseLong(parts.group(2)),
                Long.parseLong(parts.group(3)),
                Long.parseLong(parts.group(4)),
                Integer.parseInt(parts.group(5)),
                Long.parseLong(parts.group(6)),
                Long.parseLong(parts.group(7)),
                NativePath.of(
                    new String(HexFormat.of().parseHex(parts.group(8)), StandardCharsets.UTF_8))))
        : Optional.empty();
  }

  /** A line for the image. */
  @Override
  public String toString() {
    return "outside %s %s %s %s %s %s %s %s"
        .formatted(
            mount,
            device,
            inode,
            number,
            flags,
            position,
            bytes,
            HexFormat.of().formatHex(NativePath.bytes(path)));
  }
}
