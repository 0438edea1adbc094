package dev.gpuprocess.options;

import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * One of CRIU's switches: the table from which {@link CriuOptions}, the option {@code --criu} of
 * the command line and the administrator's file take their names, values and help. A switch has the
 * name that CRIU's command line has for it, as far as there is one. The switches that this library
 * sets by itself (directories, log file, parents of an image, page server) are not in it.
 *
 * @param <T> the type of its values
 * @see <a href="https://criu.org/CLI">CRIU's options</a>
 */
public final class CriuSwitch<T> {

  /** The operation that uses a switch. */
  public enum Use {
    /** Dumps and snapshots alone. */
    DUMP,
    /** Restores alone. One that a dump was given is remembered by its image. */
    RESTORE,
    /** Both. One that a dump was given is remembered by its image. */
    BOTH,
    /** Both, each its own: the image does not remember what the dump was given. */
    EACH
  }

  private static final int NEAR = 3;

  private static final List<CriuSwitch<?>> TABLE = new ArrayList<>();

  /** Connected TCP sockets are kept. Excludes {@link #TCP_CLOSE}. */
  public static final CriuSwitch<Boolean> TCP_ESTABLISHED =
      flag("tcp-established", Use.BOTH, "Keep connected TCP sockets, with their state.");

  /** Connected TCP sockets come back closed. Excludes {@link #TCP_ESTABLISHED}. */
  public static final CriuSwitch<Boolean> TCP_CLOSE =
      flag("tcp-close", Use.BOTH, "Bring connected TCP sockets back closed.");

  /** Connections that are not yet established are dropped. */
  public static final CriuSwitch<Boolean> SKIP_IN_FLIGHT =
      flag("skip-in-flight", Use.DUMP, "Drop TCP connections that are not yet established.");

  /** How packets are kept from connected sockets. */
  public static final CriuSwitch<NetworkLock> NETWORK_LOCK =
      choice(
          "network-lock",
          Use.DUMP,
          NetworkLock.AUTOMATIC,
          Map.of(
              NetworkLock.AUTOMATIC, "automatic",
              NetworkLock.IPTABLES, "iptables",
              NetworkLock.NFTABLES, "nftables",
              NetworkLock.SKIP, "skip"),
          "How packets are kept from connected TCP sockets while their process does not exist.");

  /** UNIX sockets may send to the outside. */
  public static final CriuSwitch<Boolean> EXT_UNIX_SK =
      flag(
          "ext-unix-sk",
          Use.BOTH,
          "Let UNIX sockets send to the outside of the tree, as those of syslog do; a restore"
              + " connects them by name. Connected stream sockets need external=unix[INODE] too.");

  /** The tree's own network namespace comes back empty, to be filled by another program. */
  public static final CriuSwitch<Boolean> EMPTY_NET_NS =
      word("empty-ns", "net", "", Use.BOTH, "Bring the tree's own network namespace back empty.");

  /** File locks are kept. */
  public static final CriuSwitch<Boolean> FILE_LOCKS =
      flag("file-locks", Use.BOTH, "Keep file locks; safe only if all holders are in the tree.");

  /** A restore recognizes by its size alone that a file is still the one that was open. */
  public static final CriuSwitch<Boolean> FILE_SIZE_VALIDATION =
      word(
          "file-validation",
          "filesize",
          "buildid",
          Use.BOTH,
          "Recognize open files by their size alone; otherwise programs by their build id.");

  /** A file is dumped that is open by a name that was removed while it has another name. */
  public static final CriuSwitch<Boolean> LINK_REMAP =
      flag(
          "link-remap",
          Use.DUMP,
          "Dump open files whose name was removed while another is left, such as the semaphores of"
              + " spawned Python workers.");

  /** The largest unlinked file that is copied into the image, in bytes; at most 4 GiB. */
  public static final CriuSwitch<Long> GHOST_LIMIT =
      new CriuSwitch<>(
          "ghost-limit",
          SwitchType.bytes(64L << 20),
          Use.DUMP,
          "The largest unlinked file that is copied into the image.",
          CriuSwitch::ghostLimit);

  /** Holes in unlinked files are found by asking the file system for its extents. */
  public static final CriuSwitch<Boolean> GHOST_FIEMAP =
      flag("ghost-fiemap", Use.DUMP, "Find holes in unlinked files by the file system's extents.");

  /** Any path to a device node will do when the path by which it was opened is gone. */
  public static final CriuSwitch<Boolean> EVASIVE_DEVICES =
      flag("evasive-devices", Use.DUMP, "Use any path to a device node whose own path is gone.");

  /** The names of watched files are searched for, where the kernel does not report them. */
  public static final CriuSwitch<Boolean> FORCE_IRMAP =
      flag(
          "force-irmap",
          Use.DUMP,
          "Search for the names of files watched by inotify or fanotify, as on overlayfs.");

  /** Where the names of watched files are searched for besides CRIU's own places. */
  public static final CriuSwitch<List<Path>> IRMAP_SCAN_PATH =
      paths("irmap-scan-path", Use.DUMP, "Where else the names of watched files are searched for.");

  /** Resources that the tree uses but that are not part of it. */
  public static final CriuSwitch<List<External>> EXTERNAL =
      new CriuSwitch<>(
          "external",
          SwitchType.list("KIND[ID][:NAME]", External::new, External::text),
          Use.EACH,
          "A resource from outside: mnt[POINT]:NAME, dev[MAJOR/MINOR]:NAME, file[MOUNT:INODE],"
              + " tty[RDEV:DEV], unix[INODE], pipe[INODE], net[INODE]:NAME, pid[INODE]:NAME.",
          value -> value);

  /** External bind mounts are detected and restored without being named ({@code mnt[]}). */
  public static final CriuSwitch<Boolean> EXTERNAL_MOUNTS =
      flag(
          "external-mounts",
          Use.BOTH,
          "Detect external bind mounts of a tree with a mount namespace of its own.");

  /** External mounts may share their peer group with the outside. */
  public static final CriuSwitch<Boolean> ENABLE_EXTERNAL_SHARING =
      flag("enable-external-sharing", Use.BOTH, "Let external mounts be shared with the outside.");

  /** External mounts may be slaves of an outside mount. */
  public static final CriuSwitch<Boolean> ENABLE_EXTERNAL_MASTERS =
      flag("enable-external-masters", Use.BOTH, "Let external mounts be slaves of outside mounts.");

  /** Mount points that are left out. */
  public static final CriuSwitch<List<Path>> SKIP_MNT =
      paths("skip-mnt", Use.BOTH, "A mount point that is left out.");

  /** Types of file systems that are handled although CRIU does not know them. */
  public static final CriuSwitch<List<String>> ENABLE_FS =
      words("enable-fs", "TYPE", Use.BOTH, "A file system that CRIU does not know, or all.");

  /** How cgroups are handled. Excludes {@link #UNPRIVILEGED}. CRIU decides by default. */
  public static final CriuSwitch<CgroupMode> MANAGE_CGROUPS =
      choice(
          "manage-cgroups",
          Use.BOTH,
          null,
          Map.of(
              CgroupMode.IGNORE, "ignore",
              CgroupMode.NONE, "none",
              CgroupMode.PROPERTIES, "props",
              CgroupMode.SOFT, "soft",
              CgroupMode.FULL, "full",
              CgroupMode.STRICT, "strict"),
          "How the cgroups of a tree that is not in CRIU's cgroup are handled.");

  /** Where the tree's cgroups are put, by controller; the empty name stands for all others. */
  public static final CriuSwitch<Map<String, String>> CGROUP_ROOT =
      new CriuSwitch<>(
          "cgroup-root",
          SwitchType.map(
              "[CONTROLLER:]PATH",
              Pattern.compile("(?s)(?:(?<key>[^:/]+):)?(?<value>.+)"),
              path -> path,
              entry -> (entry.getKey().isEmpty() ? "" : entry.getKey() + ":") + entry.getValue()),
          Use.BOTH,
          "Put the tree's cgroups below another one.",
          value -> value);

  /** Which properties of cgroups are dumped, in CRIU's own notation. */
  public static final CriuSwitch<String> CGROUP_PROPS =
      text("cgroup-props", "NOTATION", Use.DUMP, "Which properties of cgroups are dumped.");

  /** The only cgroup controllers that are dumped. */
  public static final CriuSwitch<List<String>> CGROUP_DUMP_CONTROLLER =
      words("cgroup-dump-controller", "NAME", Use.DUMP, "Dump this cgroup controller alone.");

  /** Where the cgroup file systems are already mounted. */
  public static final CriuSwitch<Path> CGROUP_YARD =
      path("cgroup-yard", Use.BOTH, "Where the cgroup file systems are mounted already.");

  /** Which properties of the CPU must match where an image is restored. */
  public static final CriuSwitch<CpuCheck> CPU_CAP =
      choice(
          "cpu-cap",
          Use.BOTH,
          null,
          Map.of(
              CpuCheck.NONE, "none",
              CpuCheck.FPU, "fpu",
              CpuCheck.INSTRUCTIONS, "ins",
              CpuCheck.ALL, "all"),
          "Record the CPU, and which of its properties must match at a restore.");

  /** A tree with uprobes in it is accepted. */
  public static final CriuSwitch<Boolean> ALLOW_UPROBES =
      flag("allow-uprobes", Use.BOTH, "Accept a tree with uprobes in it.");

  /** A cgroup that holds the tree and is used to freeze it. */
  public static final CriuSwitch<Path> FREEZE_CGROUP =
      path("freeze-cgroup", Use.DUMP, "A cgroup of the tree to freeze it with.");

  /** How long stopping the tree may take: rounded up to seconds, at most 71 minutes. */
  public static final CriuSwitch<Duration> TIMEOUT =
      new CriuSwitch<>(
          "timeout",
          SwitchType.seconds(Duration.ofSeconds(10)),
          Use.DUMP,
          "How long stopping the tree may take.",
          value -> Durations.positive("freeze timeout", value));

  /** CRIU works with some capabilities, and handles no cgroups; set where that is needed. */
  public static final CriuSwitch<Boolean> UNPRIVILEGED =
      flag(
          "unprivileged",
          Use.BOTH,
          "Let CRIU do with CAP_CHECKPOINT_RESTORE and without cgroups; set by itself where CRIU"
              + " lacks CAP_SYS_ADMIN.");

  /** How much CRIU logs: 1 errors, 2 warnings, 3 information, 4 debugging. */
  public static final CriuSwitch<Integer> LOG_LEVEL =
      new CriuSwitch<>(
          "log-level",
          SwitchType.number("1-4", 3),
          Use.EACH,
          "How much CRIU logs, from errors alone to debugging.",
          CriuSwitch::logLevel);

  /** The root joins our session instead of leading its own; a dump detects it. */
  public static final CriuSwitch<Boolean> SHELL_JOB =
      flag("shell-job", Use.BOTH, "The process is in the session of a shell; a dump detects it.");

  /** The root directory of the tree's mount namespace, a mount point. */
  public static final CriuSwitch<Path> ROOT =
      path("root", Use.RESTORE, "The root directory of the tree's own mount namespace.");

  /** Open descriptors of this JVM that replace resources of the tree. */
  public static final CriuSwitch<Map<String, Integer>> INHERIT_FD =
      new CriuSwitch<>(
          "inherit-fd",
          SwitchType.map(
              "fd[NUMBER]:RESOURCE",
              Pattern.compile("(?s)fd\\[(?<value>\\d{1,9})\\]:(?<key>.+)"),
              Integer::valueOf,
              entry -> "fd[" + entry.getValue() + "]:" + entry.getKey()),
          Use.EACH,
          "Replace a resource, such as pipe:[INODE], by an open descriptor.",
          CriuSwitch::resources);

  /** Files that replace resources of the tree, opened just before the restore. */
  public static final CriuSwitch<Map<String, Path>> INHERIT_FILE =
      new CriuSwitch<>(
          "inherit-file",
          SwitchType.map(
              "RESOURCE=PATH",
              Pattern.compile("(?s)(?<key>[^=]+)=(?<value>.+)"),
              Path::of,
              entry -> entry.getKey() + "=" + entry.getValue()),
          Use.RESTORE,
          "Replace a resource, such as pipe:[INODE], by a file.",
          CriuSwitch::resources);

  /** Existing namespaces that the tree joins, by their kind; with the ids in a user namespace. */
  public static final CriuSwitch<Map<String, String>> JOIN_NS =
      new CriuSwitch<>(
          "join-ns",
          SwitchType.map(
              "KIND:PATH[,USER,GROUP]",
              Pattern.compile("(?s)(?<key>ipc|mnt|net|time|uts|user):(?<value>.+)"),
              file -> file,
              entry -> entry.getKey() + ":" + entry.getValue()),
          Use.RESTORE,
          "Join an existing namespace: ipc, mnt, net, time, uts or user.",
          value -> value);

  /** Kernel settings (sysctls) that do not exist here are skipped. */
  public static final CriuSwitch<Boolean> WEAK_SYSCTLS =
      flag("weak-sysctls", Use.RESTORE, "Skip kernel settings that do not exist here.");

  /** The security label that replaces that of the tree. */
  public static final CriuSwitch<String> LSM_PROFILE =
      new CriuSwitch<>(
          "lsm-profile",
          SwitchType.text("apparmor:PROFILE|selinux:CONTEXT", value -> value),
          Use.RESTORE,
          "The security label that replaces that of the tree.",
          CriuSwitch::label);

  /** The SELinux context that replaces those of the mounts. */
  public static final CriuSwitch<String> LSM_MOUNT_CONTEXT =
      text("lsm-mount-context", "CONTEXT", Use.RESTORE, "The SELinux context of the mounts.");

  /** Mounts are restored as on kernels before 5.15. */
  public static final CriuSwitch<Boolean> MNTNS_COMPAT_MODE =
      flag("mntns-compat-mode", Use.RESTORE, "Restore mounts as on kernels before 5.15.");

  /** The rights of opened files may have changed since the dump. */
  public static final CriuSwitch<Boolean> SKIP_FILE_RWX_CHECK =
      flag("skip-file-rwx-check", Use.RESTORE, "Accept open files whose rights have changed.");

  private final String name;
  private final SwitchType<T> type;
  private final Use use;
  private final String help;
  private final UnaryOperator<T> check;

  private CriuSwitch(
      String name, SwitchType<T> type, Use use, String help, UnaryOperator<T> check) {
    this.name = name;
    this.type = type;
    this.use = use;
    this.help = help;
    this.check = check;
    TABLE.add(this);
  }

  /** {@return all switches, in the order of the table} */
  public static List<CriuSwitch<?>> all() {
    return Collections.unmodifiableList(TABLE);
  }

  /**
   * {@return the switch with a name}
   *
   * @throws IllegalArgumentException if there is none; the message has similar names
   */
  static CriuSwitch<?> named(String name) {
    return TABLE.stream()
        .filter(each -> each.name.equals(name))
        .findFirst()
        .orElseThrow(
            () ->
                new IllegalArgumentException(
                    "CRIU has no option '%s' that can be set%s".formatted(name, near(name))));
  }

  private static String near(String name) {
    String near =
        TABLE.stream()
            .map(CriuSwitch::name)
            .filter(each -> distance(name, each) <= 1 + name.length() / 3)
            .sorted(Comparator.comparingInt(each -> distance(name, each)))
            .limit(NEAR)
            .collect(Collectors.joining(", "));
    return near.isEmpty() ? ": docs/criu-options.md lists them" : "; similar: " + near;
  }

  /** Returns how many letters differ; a name that contains the other does not differ. */
  private static int distance(String one, String other) {
    if (!one.isEmpty() && other.contains(one)) {
      return 0;
    }
    int[] row = IntStream.rangeClosed(0, other.length()).toArray();
    for (int i = 1; i <= one.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j < row.length; j++) {
        int replaced = diagonal + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
        diagonal = row[j];
        row[j] = Math.min(replaced, Math.min(row[j], row[j - 1]) + 1);
      }
    }
    return row[other.length()];
  }

  /** {@return its name, such as {@code tcp-close}} */
  public String name() {
    return name;
  }

  /** {@return the form of its values for people, such as {@code BYTES}; empty for none} */
  public String form() {
    return type.form();
  }

  /** {@return the operations that use it} */
  public Use use() {
    return use;
  }

  /** {@return what it does, one sentence or two} */
  public String help() {
    return help;
  }

  /** {@return its value where it was not set, as text; empty for off, none, or CRIU's own} */
  public String defaultText() {
    T none = type.none();
    return none == null || none.equals(false) ? "" : String.join(", ", type.print().apply(none));
  }

  SwitchType<T> type() {
    return type;
  }

  T checked(T value) {
    return check.apply(value);
  }

  /** {@return its name} */
  @Override
  public String toString() {
    return name;
  }

  private static CriuSwitch<Boolean> flag(String name, Use use, String help) {
    return word(name, "", "", use, help);
  }

  private static CriuSwitch<Boolean> word(
      String name, String on, String off, Use use, String help) {
    return new CriuSwitch<>(name, SwitchType.flag(on, off), use, help, value -> value);
  }

  private static <E extends Enum<E>> CriuSwitch<E> choice(
      String name, Use use, @Nullable E none, Map<E, String> texts, String help) {
    return new CriuSwitch<>(name, SwitchType.choice(none, texts), use, help, value -> value);
  }

  private static CriuSwitch<Path> path(String name, Use use, String help) {
    return new CriuSwitch<>(name, SwitchType.path("PATH"), use, help, value -> value);
  }

  private static CriuSwitch<List<Path>> paths(String name, Use use, String help) {
    return new CriuSwitch<>(name, SwitchType.paths(), use, help, value -> value);
  }

  private static CriuSwitch<List<String>> words(String name, String form, Use use, String help) {
    return new CriuSwitch<>(name, SwitchType.words(form), use, help, value -> value);
  }

  private static CriuSwitch<String> text(String name, String form, Use use, String help) {
    return new CriuSwitch<>(name, SwitchType.text(form, value -> value), use, help, value -> value);
  }

  private static Long ghostLimit(Long bytes) {
    if (bytes < 0 || bytes > 0xffff_ffffL) {
      throw new IllegalArgumentException(
          "the ghost limit must be between 0 and 4 GiB, not " + bytes);
    }
    return bytes;
  }

  private static Integer logLevel(Integer level) {
    if (level < 1 || level > 4) {
      throw new IllegalArgumentException(
          "the log level must be 1 (errors) to 4 (debug), not " + level);
    }
    return level;
  }

  private static <V> Map<String, V> resources(Map<String, V> replaced) {
    if (replaced.containsKey("")) {
      throw new IllegalArgumentException(
          "a resource that is replaced has a name, such as pipe:[7]");
    }
    return replaced;
  }

  private static String label(String label) {
    if (!label.matches("(?s)(apparmor|selinux):.+")) {
      throw new IllegalArgumentException(
          "a security label is written apparmor:profile or selinux:context, not " + label);
    }
    return label;
  }
}
