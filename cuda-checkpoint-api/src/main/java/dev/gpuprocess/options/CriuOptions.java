package dev.gpuprocess.options;

import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * CRIU's own switches, for process trees that need more than the defaults. Immutable.
 *
 * <p>The same options may be given to a dump and to a restore: each uses those that concern it.
 * What a restore must know of the options of its dump is in the image's manifest. A root that is
 * not the leader of its session is detected.
 *
 * @see <a href="https://criu.org/CLI">CRIU's options</a>
 */
public final class CriuOptions {

  private static final CriuOptions DEFAULTS = builder().build();

  private static final Set<String> JOINABLE =
      Collections.unmodifiableSet(new TreeSet<>(Set.of("ipc", "mnt", "net", "time", "uts")));

  /** A private copy, so it never changes. */
  private final Builder set;

  private CriuOptions(Builder set) {
    this.set = set;
    refuse(
        tcpEstablished() && tcpClose(),
        "connections are kept or closed: set tcpEstablished or tcpClose");
    refuse(
        unprivileged() && cgroups().isPresent(),
        "cgroups cannot be handled without the rights of root: set unprivileged or cgroups");
    refuse(
        set.cgroups == CgroupMode.IGNORE && set.namesCgroups(),
        "cgroups that are ignored have no roots, properties, controllers or yard");
    refuse(
        emptyNetworkNamespace() && joinedNamespaces().containsKey("net"),
        "a tree has one network namespace: set emptyNetworkNamespace or join one");
  }

  private static void refuse(boolean conflict, String why) {
    if (conflict) {
      throw new IllegalStateException(why);
    }
  }

  /**
   * The options that suit most processes.
   *
   * @return the defaults
   */
  public static CriuOptions ofDefaults() {
    return DEFAULTS;
  }

  /**
   * Starts from the defaults.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Starts from these options.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return set.copy();
  }

  /** {@return whether connected TCP sockets are kept, with their state} */
  public boolean tcpEstablished() {
    return set.tcpEstablished;
  }

  /** {@return whether connected TCP sockets come back closed} */
  public boolean tcpClose() {
    return set.tcpClose;
  }

  /** {@return whether TCP connections that are not yet established are dropped} */
  public boolean tcpSkipInFlight() {
    return set.tcpSkipInFlight;
  }

  /** {@return how packets are kept from connected sockets} */
  public NetworkLock networkLock() {
    return set.networkLock;
  }

  /** {@return whether UNIX sockets may be connected to the outside of the tree} */
  public boolean externalUnixSockets() {
    return set.externalUnixSockets;
  }

  /** {@return whether the tree's own network namespace comes back empty} */
  public boolean emptyNetworkNamespace() {
    return set.emptyNetworkNamespace;
  }

  /** {@return whether file locks are kept} */
  public boolean fileLocks() {
    return set.fileLocks;
  }

  /** {@return whether open files are recognized by their size alone} */
  public boolean compareFilesBySize() {
    return set.compareFilesBySize;
  }

  /** {@return whether open files whose name was removed get a temporary one} */
  public boolean linkRemap() {
    return set.linkRemap;
  }

  /** {@return the largest unlinked file that is copied into the image, in bytes} */
  public long ghostLimit() {
    return set.ghostLimit;
  }

  /** {@return whether holes in unlinked files are found by asking the file system} */
  public boolean ghostFiemap() {
    return set.ghostFiemap;
  }

  /** {@return whether any path to a device node will do} */
  public boolean evasiveDevices() {
    return set.evasiveDevices;
  }

  /** {@return whether the names of watched files are searched for} */
  public boolean forceIrmap() {
    return set.forceIrmap;
  }

  /** {@return where the names of watched files are searched for besides CRIU's own places} */
  public List<Path> irmapScanPaths() {
    return set.irmapScanPaths;
  }

  /** {@return resources that the tree uses but that are not part of it} */
  public List<External> external() {
    return set.external;
  }

  /** {@return whether external bind mounts are detected and restored without being named} */
  public boolean externalMounts() {
    return set.externalMounts;
  }

  /** {@return whether external mounts may share their peer group with the outside} */
  public boolean sharedMounts() {
    return set.sharedMounts;
  }

  /** {@return whether external mounts may be slaves of an outside mount} */
  public boolean masterMounts() {
    return set.masterMounts;
  }

  /** {@return mount points that are left out} */
  public List<Path> skippedMounts() {
    return set.skippedMounts;
  }

  /** {@return types of file systems that are handled although CRIU does not know them} */
  public List<String> fileSystems() {
    return set.fileSystems;
  }

  /** {@return how cgroups are handled; empty for CRIU's default} */
  public Optional<CgroupMode> cgroups() {
    return set.cgroups == null && set.namesCgroups()
        ? Optional.of(CgroupMode.SOFT)
        : Optional.ofNullable(set.cgroups);
  }

  /** {@return where the tree's cgroups are put, by controller; the empty name for all others} */
  public Map<String, String> cgroupRoots() {
    return set.cgroupRoots;
  }

  /** {@return which properties of cgroups are dumped; empty for those that CRIU knows} */
  public Optional<String> cgroupProperties() {
    return Optional.ofNullable(set.cgroupProperties);
  }

  /** {@return the only cgroup controllers that are dumped; empty for all} */
  public List<String> cgroupControllers() {
    return set.cgroupControllers;
  }

  /** {@return where the cgroup file systems are already mounted} */
  public Optional<Path> cgroupYard() {
    return Optional.ofNullable(set.cgroupYard);
  }

  /** {@return which properties of the CPU must match; empty for the default} */
  public Optional<CpuCheck> cpuCheck() {
    return Optional.ofNullable(set.cpuCheck);
  }

  /** {@return whether a tree with uprobes in it is accepted} */
  public boolean allowUprobes() {
    return set.allowUprobes;
  }

  /** {@return a cgroup to freeze the tree with} */
  public Optional<Path> freezeCgroup() {
    return Optional.ofNullable(set.freezeCgroup);
  }

  /** {@return how long stopping the tree may take} */
  public Duration freezeTimeout() {
    return set.freezeTimeout;
  }

  /** {@return whether CRIU works without the rights of root} */
  public boolean unprivileged() {
    return set.unprivileged;
  }

  /** {@return how much CRIU logs, 1 to 4} */
  public int logLevel() {
    return set.logLevel;
  }

  /** {@return whether the root joins our session instead of leading its own} */
  public boolean shellJob() {
    return set.shellJob;
  }

  /** {@return the root directory of the tree's mount namespace} */
  public Optional<Path> root() {
    return Optional.ofNullable(set.root);
  }

  /** {@return open descriptors of this JVM that replace resources of the tree} */
  public Map<String, Integer> inheritedDescriptors() {
    return set.inheritedDescriptors;
  }

  /** {@return files that replace resources of the tree} */
  public Map<String, Path> inheritedFiles() {
    return set.inheritedFiles;
  }

  /** {@return existing namespaces that the tree joins, by their kind} */
  public Map<String, Path> joinedNamespaces() {
    return set.joinedNamespaces;
  }

  /** {@return the user and group that the tree has in the user namespace that it joins} */
  public Optional<String> userNamespaceIds() {
    return Optional.ofNullable(set.userNamespaceIds);
  }

  /** {@return whether kernel settings that do not exist here are skipped} */
  public boolean weakSysctls() {
    return set.weakSysctls;
  }

  /** {@return the security label that replaces that of the tree} */
  public Optional<String> lsmProfile() {
    return Optional.ofNullable(set.lsmProfile);
  }

  /** {@return the SELinux context that replaces those of the mounts} */
  public Optional<String> lsmMountContext() {
    return Optional.ofNullable(set.lsmMountContext);
  }

  /** {@return whether mounts are restored as on older kernels} */
  public boolean mountCompatibility() {
    return set.mountCompatibility;
  }

  /** {@return whether the rights of opened files may have changed} */
  public boolean skipFileModeCheck() {
    return set.skipFileModeCheck;
  }

  /** Builds {@link CriuOptions}; each method names its default. Not for use by several threads. */
  public static final class Builder extends OptionsBuilder<Builder> {

    private boolean tcpEstablished;
    private boolean tcpClose;
    private boolean tcpSkipInFlight;
    private NetworkLock networkLock = NetworkLock.AUTOMATIC;
    private boolean externalUnixSockets;
    private boolean emptyNetworkNamespace;
    private boolean fileLocks;
    private boolean compareFilesBySize;
    private boolean linkRemap;
    private long ghostLimit = 64L << 20;
    private boolean ghostFiemap;
    private boolean evasiveDevices;
    private boolean forceIrmap;
    private List<Path> irmapScanPaths = List.of();
    private List<External> external = List.of();
    private boolean externalMounts;
    private boolean sharedMounts;
    private boolean masterMounts;
    private List<Path> skippedMounts = List.of();
    private List<String> fileSystems = List.of();
    private @Nullable CgroupMode cgroups;
    private Map<String, String> cgroupRoots = Map.of();
    private @Nullable String cgroupProperties;
    private List<String> cgroupControllers = List.of();
    private @Nullable Path cgroupYard;
    private @Nullable CpuCheck cpuCheck;
    private boolean allowUprobes;
    private @Nullable Path freezeCgroup;
    private Duration freezeTimeout = Duration.ofSeconds(10);
    private boolean unprivileged;
    private int logLevel = 3;
    private boolean shellJob;
    private @Nullable Path root;
    private Map<String, Integer> inheritedDescriptors = Map.of();
    private Map<String, Path> inheritedFiles = Map.of();
    private Map<String, Path> joinedNamespaces = Map.of();
    private @Nullable String userNamespaceIds;
    private boolean weakSysctls;
    private @Nullable String lsmProfile;
    private @Nullable String lsmMountContext;
    private boolean mountCompatibility;
    private boolean skipFileModeCheck;

    private Builder() {}

    private boolean namesCgroups() {
      return !cgroupRoots.isEmpty()
          || cgroupProperties != null
          || !cgroupControllers.isEmpty()
          || cgroupYard != null;
    }

    private static <T> List<T> with(List<T> before, T[] more) {
      return Stream.concat(before.stream(), Stream.of(more)).toList();
    }

    private static <V> Map<String, V> with(Map<String, V> before, String key, V value) {
      if (key.isEmpty()) {
        throw new IllegalArgumentException("the name of what is replaced is empty");
      }
      Map<String, V> all = new TreeMap<>(before);
      all.put(key, value);
      return Collections.unmodifiableMap(all);
    }

    private static <V> Map<String, V> without(Map<String, V> before, String key) {
      Map<String, V> all = new TreeMap<>(before);
      all.remove(key);
      return Collections.unmodifiableMap(all);
    }

    /**
     * Whether connected TCP sockets are kept, with their state (CRIU {@code tcp-established}).
     * Excludes {@link #tcpClose}.
     *
     * @param tcpEstablished the new value; false by default
     * @return this builder
     */
    public Builder tcpEstablished(boolean tcpEstablished) {
      this.tcpEstablished = tcpEstablished;
      return this;
    }

    /**
     * Whether connected TCP sockets come back closed (CRIU {@code tcp-close}). Excludes {@link
     * #tcpEstablished}.
     *
     * @param tcpClose the new value; false by default
     * @return this builder
     */
    public Builder tcpClose(boolean tcpClose) {
      this.tcpClose = tcpClose;
      return this;
    }

    /**
     * Whether TCP connections that are not yet established are dropped (CRIU {@code
     * tcp-skip-in-flight}).
     *
     * @param tcpSkipInFlight the new value; false by default
     * @return this builder
     */
    public Builder tcpSkipInFlight(boolean tcpSkipInFlight) {
      this.tcpSkipInFlight = tcpSkipInFlight;
      return this;
    }

    /**
     * How packets are kept from connected sockets while their process does not exist (CRIU {@code
     * network-lock}).
     *
     * @param networkLock the new value; {@link NetworkLock#AUTOMATIC} by default
     * @return this builder
     */
    public Builder networkLock(NetworkLock networkLock) {
      this.networkLock = networkLock;
      return this;
    }

    /**
     * Whether UNIX sockets may be connected to the outside of the tree (CRIU {@code ext-unix-sk}).
     * Connected stream sockets need {@link External#unixSocket} instead.
     *
     * @param externalUnixSockets the new value; false by default
     * @return this builder
     */
    public Builder externalUnixSockets(boolean externalUnixSockets) {
      this.externalUnixSockets = externalUnixSockets;
      return this;
    }

    /**
     * Whether the tree's own network namespace comes back empty, to be filled by another program
     * (CRIU {@code empty-ns net}).
     *
     * @param emptyNetworkNamespace the new value; false by default
     * @return this builder
     */
    public Builder emptyNetworkNamespace(boolean emptyNetworkNamespace) {
      this.emptyNetworkNamespace = emptyNetworkNamespace;
      return this;
    }

    /**
     * Whether file locks are kept; safe only if all holders are in the tree (CRIU {@code
     * file-locks}).
     *
     * @param fileLocks the new value; false by default
     * @return this builder
     */
    public Builder fileLocks(boolean fileLocks) {
      this.fileLocks = fileLocks;
      return this;
    }

    /**
     * Whether a restore recognizes by its size alone that a file is still the one that was open
     * (CRIU {@code file-validation filesize}).
     *
     * @param compareFilesBySize the new value; false by default: ELF files are recognized by their
     *     build id, and others by their size
     * @return this builder
     */
    public Builder compareFilesBySize(boolean compareFilesBySize) {
      this.compareFilesBySize = compareFilesBySize;
      return this;
    }

    /**
     * Whether a file is dumped that is open by a name that was removed while it has another name
     * (CRIU {@code link-remap}), such as the semaphores of spawned Python workers. The image
     * contains its content, up to {@link #ghostLimit} bytes, and a restore links it to its other
     * name again, or creates it if that is gone; files in shared memory get the content that they
     * had at the dump. A tree with a mount namespace of its own can then be restored only once, and
     * not after a dump that left it running.
     *
     * @param linkRemap the new value; false by default
     * @return this builder
     */
    public Builder linkRemap(boolean linkRemap) {
      this.linkRemap = linkRemap;
      return this;
    }

    /**
     * The largest unlinked file that is copied into the image, in bytes (CRIU {@code ghost-limit}).
     *
     * @param ghostLimit the new value; 64 MiB by default
     * @return this builder
     * @throws IllegalArgumentException unless it is between 0 and 4 GiB
     */
    public Builder ghostLimit(long ghostLimit) {
      if (ghostLimit < 0 || ghostLimit > 0xffff_ffffL) {
        throw new IllegalArgumentException(
            "the ghost limit must be between 0 and 4 GiB, not " + ghostLimit);
      }
      this.ghostLimit = ghostLimit;
      return this;
    }

    /**
     * Whether holes in unlinked files are found by asking the file system for its extents, which is
     * faster for files with many holes (CRIU {@code ghost-fiemap}).
     *
     * @param ghostFiemap the new value; false by default
     * @return this builder
     */
    public Builder ghostFiemap(boolean ghostFiemap) {
      this.ghostFiemap = ghostFiemap;
      return this;
    }

    /**
     * Whether any path to a device node will do when the path by which it was opened is gone (CRIU
     * {@code evasive-devices}).
     *
     * @param evasiveDevices the new value; false by default
     * @return this builder
     */
    public Builder evasiveDevices(boolean evasiveDevices) {
      this.evasiveDevices = evasiveDevices;
      return this;
    }

    /**
     * Whether the names of files watched with inotify or fanotify are searched for, where the
     * kernel does not report them (CRIU {@code force-irmap}).
     *
     * @param forceIrmap the new value; false by default
     * @return this builder
     */
    public Builder forceIrmap(boolean forceIrmap) {
      this.forceIrmap = forceIrmap;
      return this;
    }

    /**
     * Where else the names of watched files are searched for (CRIU {@code irmap-scan-path}).
     *
     * @param more in addition to what was added before; CRIU knows some places of its own
     * @return this builder
     */
    public Builder irmapScanPaths(Path... more) {
      this.irmapScanPaths = with(irmapScanPaths, more);
      return this;
    }

    /**
     * Adds resources that the tree uses but that are not part of it (CRIU {@code external}).
     *
     * @param more in addition to what was added before; none by default
     * @return this builder
     */
    public Builder external(External... more) {
      this.external = with(external, more);
      return this;
    }

    /**
     * Whether external bind mounts of a tree with a mount namespace of its own are detected and
     * restored without being named (CRIU {@code external mnt[]}). Otherwise CRIU refuses a mount
     * that leads outside, unless {@link External#mount} names it.
     *
     * @param externalMounts the new value; false by default
     * @return this builder
     */
    public Builder externalMounts(boolean externalMounts) {
      this.externalMounts = externalMounts;
      return this;
    }

    /**
     * Whether external mounts may share their peer group with the outside (CRIU {@code
     * enable-external-sharing}).
     *
     * @param sharedMounts the new value; false by default
     * @return this builder
     */
    public Builder sharedMounts(boolean sharedMounts) {
      this.sharedMounts = sharedMounts;
      return this;
    }

    /**
     * Whether external mounts may be slaves of an outside mount (CRIU {@code
     * enable-external-masters}).
     *
     * @param masterMounts the new value; false by default
     * @return this builder
     */
    public Builder masterMounts(boolean masterMounts) {
      this.masterMounts = masterMounts;
      return this;
    }

    /**
     * Adds mount points that are left out (CRIU {@code skip-mnt}).
     *
     * @param more in addition to what was added before; none by default
     * @return this builder
     */
    public Builder skipMounts(Path... more) {
      this.skippedMounts = with(skippedMounts, more);
      return this;
    }

    /**
     * Adds types of file systems that are handled although CRIU does not know them (CRIU {@code
     * enable-fs}).
     *
     * @param more such as {@code squashfs}, or {@code all} for every type, in addition to what was
     *     added before; none by default
     * @return this builder
     */
    public Builder fileSystems(String... more) {
      this.fileSystems = with(fileSystems, more);
      return this;
    }

    /**
     * How cgroups are handled (CRIU {@code manage-cgroups}). Has no effect on a tree that is in the
     * same cgroup as CRIU. Excludes {@link #unprivileged}.
     *
     * @param cgroups the new value; by default CRIU decides, which means {@link
     *     dev.gpuprocess.options.CgroupMode#SOFT}
     * @return this builder
     */
    public Builder cgroups(CgroupMode cgroups) {
      this.cgroups = cgroups;
      return this;
    }

    /**
     * Puts the tree's cgroups below another cgroup (CRIU {@code cgroup-root}). Excludes {@link
     * CgroupMode#IGNORE} and {@link #unprivileged}, as the other details of cgroups do.
     *
     * @param controller such as {@code cpu}; empty for all that have no root of their own
     * @param path such as {@code /processes/42}
     * @return this builder
     */
    public Builder cgroupRoot(String controller, String path) {
      Map<String, String> all = new TreeMap<>(cgroupRoots);
      all.put(controller, path);
      this.cgroupRoots = Collections.unmodifiableMap(all);
      return this;
    }

    /**
     * Which properties of cgroups are dumped (CRIU {@code cgroup-props}).
     *
     * @param notation in CRIU's own notation; by default those that CRIU knows
     * @return this builder
     */
    public Builder cgroupProperties(String notation) {
      this.cgroupProperties = notation;
      return this;
    }

    /**
     * Adds cgroup controllers that alone are dumped (CRIU {@code cgroup-dump-controller}).
     *
     * @param more such as {@code cpu}, in addition to what was added before; by default all are
     *     dumped
     * @return this builder
     */
    public Builder cgroupControllers(String... more) {
      this.cgroupControllers = with(cgroupControllers, more);
      return this;
    }

    /**
     * Where the cgroup file systems are already mounted (CRIU {@code cgroup-yard}).
     *
     * @param directory by default CRIU mounts them
     * @return this builder
     */
    public Builder cgroupYard(Path directory) {
      this.cgroupYard = directory;
      return this;
    }

    /**
     * Which properties of the CPU must match where the image is restored (CRIU {@code cpu-cap}). A
     * dump with this option records the CPU.
     *
     * @param cpuCheck the new value; by default a dump records nothing, and a restore compares
     *     {@link CpuCheck#INSTRUCTIONS} if the dump recorded the CPU
     * @return this builder
     */
    public Builder cpuCheck(CpuCheck cpuCheck) {
      this.cpuCheck = cpuCheck;
      return this;
    }

    /**
     * Whether a tree with uprobes in it is accepted (CRIU {@code allow-uprobes}).
     *
     * @param allowUprobes the new value; false by default
     * @return this builder
     */
    public Builder allowUprobes(boolean allowUprobes) {
      this.allowUprobes = allowUprobes;
      return this;
    }

    /**
     * A cgroup that holds the tree and is used to freeze it, instead of stopping one task after
     * another (CRIU {@code freeze-cgroup}).
     *
     * @param freezeCgroup its directory; none by default
     * @return this builder
     */
    public Builder freezeCgroup(Path freezeCgroup) {
      this.freezeCgroup = freezeCgroup;
      return this;
    }

    /**
     * How long stopping the tree may take (CRIU {@code timeout}).
     *
     * @param freezeTimeout the new value, rounded up to seconds; 10 seconds by default; more than
     *     71 minutes counts as 71 minutes, the most that CRIU supports
     * @return this builder
     * @throws IllegalArgumentException unless it is positive
     */
    public Builder freezeTimeout(Duration freezeTimeout) {
      this.freezeTimeout = Durations.positive("freeze timeout", freezeTimeout);
      return this;
    }

    /**
     * Whether CRIU works without the rights of root (CRIU {@code unprivileged}). It still needs the
     * capability CAP_CHECKPOINT_RESTORE, and handles no cgroups. Excludes {@link #cgroups}. The
     * driver of this library sets it for a CRIU that does not run as root.
     *
     * @param unprivileged the new value; false by default
     * @return this builder
     */
    public Builder unprivileged(boolean unprivileged) {
      this.unprivileged = unprivileged;
      return this;
    }

    /**
     * How much CRIU logs; 1 errors, 2 warnings, 3 information, 4 debugging (CRIU {@code
     * log-level}).
     *
     * @param logLevel the new value; 3 by default
     * @return this builder
     * @throws IllegalArgumentException unless it is between 1 and 4
     */
    public Builder logLevel(int logLevel) {
      if (logLevel < 1 || logLevel > 4) {
        throw new IllegalArgumentException(
            "the log level must be 1 (errors) to 4 (debug), not " + logLevel);
      }
      this.logLevel = logLevel;
      return this;
    }

    /**
     * Whether the root joins our session instead of leading its own (CRIU {@code shell-job}).
     *
     * @param shellJob the new value; false by default
     * @return this builder
     */
    public Builder shellJob(boolean shellJob) {
      this.shellJob = shellJob;
      return this;
    }

    /**
     * The root directory of the tree's mount namespace (CRIU {@code root}).
     *
     * @param root an existing mount point; by default that of CRIU
     * @return this builder
     */
    public Builder root(Path root) {
      this.root = root;
      return this;
    }

    /**
     * Replaces a resource that the tree had by an open descriptor of this JVM (CRIU {@code
     * inherit-fd}). The descriptor stays open here; the tree gets a copy.
     *
     * @param resource what is replaced: what {@code /proc/PID/fd/N} pointed to at the dump, such as
     *     {@code pipe:[4711]} or {@code socket:[4712]}; the path of a file without its first slash;
     *     the {@linkplain External#text() text} of an external file or terminal; the name of an
     *     external namespace
     * @param descriptor its number in this JVM
     * @return this builder
     * @throws IllegalArgumentException when the resource is empty or the number negative
     */
    public Builder inherit(String resource, int descriptor) {
      if (descriptor < 0) {
        throw new IllegalArgumentException(
            "a descriptor is not negative, as " + descriptor + " is");
      }
      this.inheritedDescriptors = with(inheritedDescriptors, resource, descriptor);
      this.inheritedFiles = without(inheritedFiles, resource);
      return this;
    }

    /**
     * Replaces a resource that the tree had by a file, opened for reading and writing just before
     * the restore (CRIU {@code inherit-fd}).
     *
     * @param resource as in {@link #inherit(String, int)}
     * @param file an existing file, pipe or device
     * @return this builder
     * @throws IllegalArgumentException when the resource is empty
     */
    public Builder inherit(String resource, Path file) {
      this.inheritedFiles = with(inheritedFiles, resource, file);
      this.inheritedDescriptors = without(inheritedDescriptors, resource);
      return this;
    }

    /**
     * Has the tree join an existing namespace (CRIU {@code join-ns}).
     *
     * @param kind {@code ipc}, {@code mnt}, {@code net}, {@code time} or {@code uts}
     * @param file the namespace, such as {@code /run/netns/blue} or {@code /proc/123/ns/net}
     * @return this builder
     * @throws IllegalArgumentException when it is none of these kinds
     */
    public Builder joinNamespace(String kind, Path file) {
      if (!JOINABLE.contains(kind)) {
        throw new IllegalArgumentException(
            "a tree can join namespaces of the kinds " + JOINABLE + ", not " + kind);
      }
      this.joinedNamespaces = with(joinedNamespaces, kind, file);
      return this;
    }

    /**
     * Has the tree join an existing user namespace (CRIU {@code join-ns user}).
     *
     * @param file such as {@code /proc/123/ns/user}
     * @param user the user id to run as in it
     * @param group the group id to run as in it
     * @return this builder
     */
    public Builder joinUserNamespace(Path file, int user, int group) {
      this.joinedNamespaces = with(joinedNamespaces, "user", file);
      this.userNamespaceIds = user + "," + group;
      return this;
    }

    /**
     * Whether kernel settings (sysctls) that do not exist here are skipped (CRIU {@code
     * weak-sysctls}).
     *
     * @param weakSysctls the new value; false by default
     * @return this builder
     */
    public Builder weakSysctls(boolean weakSysctls) {
      this.weakSysctls = weakSysctls;
      return this;
    }

    /**
     * The security label that replaces that of the tree (CRIU {@code lsm-profile}).
     *
     * @param lsmProfile such as {@code apparmor:docker-default} or {@code selinux:} and a context;
     *     by default the label it had
     * @return this builder
     * @throws IllegalArgumentException when it does not begin with one of the two modules
     */
    public Builder lsmProfile(String lsmProfile) {
      if (!lsmProfile.matches("(?s)(apparmor|selinux):.+")) {
        throw new IllegalArgumentException(
            "a security label is written apparmor:profile or selinux:context, not " + lsmProfile);
      }
      this.lsmProfile = lsmProfile;
      return this;
    }

    /**
     * The SELinux context that replaces those of the mounts (CRIU {@code lsm-mount-context}).
     *
     * @param lsmMountContext the new value; by default those they had
     * @return this builder
     */
    public Builder lsmMountContext(String lsmMountContext) {
      this.lsmMountContext = lsmMountContext;
      return this;
    }

    /**
     * Whether mounts are restored as on kernels before 5.15 (CRIU {@code mntns-compat-mode}).
     *
     * @param mountCompatibility the new value; false by default
     * @return this builder
     */
    public Builder mountCompatibility(boolean mountCompatibility) {
      this.mountCompatibility = mountCompatibility;
      return this;
    }

    /**
     * Whether the rights of opened files may have changed since the dump (CRIU {@code
     * skip-file-rwx-check}).
     *
     * @param skipFileModeCheck the new value; false by default
     * @return this builder
     */
    public Builder skipFileModeCheck(boolean skipFileModeCheck) {
      this.skipFileModeCheck = skipFileModeCheck;
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the options
     * @throws IllegalStateException when two of them exclude each other; the message names both
     */
    public CriuOptions build() {
      return new CriuOptions(copy());
    }
  }
}
