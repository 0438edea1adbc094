package dev.gpuprocess.internal.manifest;

import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.ImageProcess;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.text.Label;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Instant;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * What an image contains, as {@code manifest.json} records it.
 *
 * @param formatVersion the format of the image: {@link #FORMAT}, {@link #FORMAT_WITH_MEMORY} for
 *     one with memory files, {@link #FORMAT_OF_JOB} for one of a process, {@link
 *     #FORMAT_WITH_PLUGIN} for one that a plugin of CRIU took part in
 * @param created when the dump was made
 * @param pid the root of the process tree, and the pid it will have again; of an {@linkplain
 *     Options#isIsolated isolated} one the pid that its controller saw, while it has pid 1 inside
 * @param startTicks when that process started, in clock ticks since boot
 * @param commandLine its arguments, program first
 * @param gpuBytes how many bytes it held on each GPU, by UUID; empty where that was not known, and
 *     in the image of a process, whose members say it
 * @param cudaVersion the CUDA version that the driver supported, such as 13000 for CUDA 13.0
 * @param driverVersion the version of the NVIDIA driver, such as {@code 580.159.04}; empty where it
 *     was not known
 * @param criuVersion the version of the CRIU that wrote the images
 * @param kernel the kernel's release
 * @param options what a restore must know about the dump
 * @param label the label that the dump was given; null for none
 * @param files every file below {@code criu} and {@code gpu}
 * @param memory what the files below {@code gpu} hold; null where there are none
 * @param members the CUDA processes of the tree, where that is not its root alone; null otherwise
 * @param machine what else its processes depend on; null in images of earlier versions
 * @param processes the processes of the tree, the root first, at most {@link ImageProcess#MOST};
 *     null where they could not be read, and in images of earlier versions
 * @param steps what led into the image since the process ran, as far as the controller that made it
 *     did it, with the times of each member; null in images of earlier versions
 * @param lost the names of the attributes that the processes had and the image lacks; null for
 *     none, and in images of earlier versions
 */
public record ManifestData(
    int formatVersion,
    Instant created,
    int pid,
    long startTicks,
    List<String> commandLine,
    Map<String, Long> gpuBytes,
    int cudaVersion,
    String driverVersion,
    String criuVersion,
    String kernel,
    Options options,
    @Nullable String label,
    List<ChecksummedFile> files,
    @Nullable List<MemoryFile> memory,
    @Nullable List<ManifestMember> members,
    @Nullable ImageMachine machine,
    @Nullable List<ImageProcess> processes,
    @Nullable List<ManifestStep> steps,
    @Nullable List<String> lost) {

  private static final Pattern ATTRIBUTE = Pattern.compile("[a-z][a-z-]{0,63}");

  /** The format of images of CRIU's files alone. */
  public static final int FORMAT = 1;

  /** The format of images with memory files, which earlier versions cannot restore. */
  public static final int FORMAT_WITH_MEMORY = 2;

  /**
   * The format of images of trees in which other processes than the root use CUDA, or none does,
   * which earlier versions cannot restore. They may have memory files.
   */
  public static final int FORMAT_OF_JOB = 3;

  /**
   * The format of images of trees without CUDA processes that are restored with a plugin of CRIU,
   * which earlier versions cannot do. They have no memory files.
   */
  public static final int FORMAT_WITH_PLUGIN = 4;

  /**
   * Checks that nothing is missing or impossible.
   *
   * @throws IllegalArgumentException when a value is impossible
   * @throws NullPointerException when one is missing
   */
  public ManifestData {
    Objects.requireNonNull(created, "created");
    Objects.requireNonNull(driverVersion, "driverVersion");
    Objects.requireNonNull(criuVersion, "criuVersion");
    Objects.requireNonNull(kernel, "kernel");
    Objects.requireNonNull(options, "options");
    commandLine = List.copyOf(commandLine);
    gpuBytes = ManifestMember.holdings(gpuBytes);
    files = List.copyOf(files);
    if (label != null) {
      Label.require(label);
    }
    if (pid <= 1 || startTicks < 0 || cudaVersion < 0) {
      throw new IllegalArgumentException(
          "an image cannot be of pid %s, started at %s, with CUDA version %s"
              .formatted(pid, startTicks, cudaVersion));
    }
    if (files.isEmpty()
        || files.stream().map(ChecksummedFile::path).distinct().count() != files.size()) {
      throw new IllegalArgumentException("the list of files is empty or names a file twice");
    }
    memory = memory == null ? null : List.copyOf(memory);
    requireMemory(formatVersion, files, memory);
    members = members == null ? null : List.copyOf(members);
    requireMembers(formatVersion, members, gpuBytes);
    requirePlugin(formatVersion, options.plugin(), members);
    processes = processes == null ? null : List.copyOf(processes);
    requireTree(processes);
    steps = steps == null ? null : List.copyOf(steps);
    lost = lost == null ? null : List.copyOf(lost);
    if (lost != null && !lost.stream().allMatch(name -> ATTRIBUTE.matcher(name).matches())) {
      throw new IllegalArgumentException("these are not names of attributes: " + lost);
    }
    if (members != null && !options.isIsolated()) {
      members.stream()
          .map(ManifestMember::pid)
          .filter(each -> each <= 1)
          .forEach(ManifestData::refuse);
    }
  }

  /** The format, the list of files and the list of what they hold say the same. */
  private static void requireMemory(
      int format, List<ChecksummedFile> files, @Nullable List<MemoryFile> memory) {
    List<String> listed =
        files.stream()
            .map(ChecksummedFile::path)
            .filter(path -> path.startsWith(MemoryFile.DIRECTORY + "/"))
            .sorted()
            .toList();
    List<String> described =
        memory == null ? List.of() : memory.stream().map(MemoryFile::file).sorted().toList();
    if (!listed.equals(described)
        || (memory != null && memory.isEmpty())
        || (format != FORMAT_OF_JOB && (memory != null) != (format == FORMAT_WITH_MEMORY))) {
      throw new IllegalArgumentException(
          "format %s has the memory files %s, and the list of files has %s"
              .formatted(format, described, listed));
    }
    for (MemoryFile each : memory == null ? List.<MemoryFile>of() : memory) {
      if (files.stream()
          .anyMatch(file -> file.path().equals(each.file()) && file.bytes() != each.bytes())) {
        throw new IllegalArgumentException(
            "%s is not as long as the memory that it holds, %s bytes"
                .formatted(each.file(), each.bytes()));
      }
    }
  }

  private static void requireMembers(
      int format, @Nullable List<ManifestMember> members, Map<String, Long> gpuBytes) {
    if ((members != null) != (format >= FORMAT_OF_JOB)
        || (members != null && !gpuBytes.isEmpty())) {
      throw new IllegalArgumentException(
          "format %s does not say this of CUDA processes".formatted(format));
    }
    if (members != null
        && members.stream().map(ManifestMember::pid).distinct().count() != members.size()) {
      throw new IllegalArgumentException("a member is named twice");
    }
  }

  private static void requirePlugin(
      int format, @Nullable String plugin, @Nullable List<ManifestMember> members) {
    if ((plugin != null) != (format == FORMAT_WITH_PLUGIN)
        || (plugin != null && !List.of().equals(members))) {
      throw new IllegalArgumentException(
          "format %s does not say this of plugins".formatted(format));
    }
  }

  /** One root, and each process once, behind its parent. */
  private static void requireTree(@Nullable List<ImageProcess> processes) {
    if (processes == null) {
      return;
    }
    Set<Integer> known = new HashSet<>();
    for (ImageProcess each : processes) {
      if ((known.isEmpty() ? each.parent() != 0 : !known.contains(each.parent()))
          || !known.add(each.pid())) {
        throw new IllegalArgumentException("the process " + each.pid() + " is not of one tree");
      }
    }
    if (known.isEmpty() || known.size() > ImageProcess.MOST) {
      throw new IllegalArgumentException("an image cannot name " + known.size() + " processes");
    }
  }

  /** Returns what callers see of it. */
  public Manifest summary() {
    Map<String, Long> sizes = new LinkedHashMap<>();
    files.forEach(file -> sizes.put(file.path(), file.bytes()));
    return new Manifest(
        formatVersion,
        created,
        new ProcessIdentity(pid, startTicks),
        commandLine,
        label,
        options.isIsolated(),
        options.plugin(),
        cudaVersion,
        driverVersion,
        criuVersion,
        kernel,
        sizes,
        cudaProcesses().stream().map(ManifestMember::summary).toList(),
        processes == null ? List.of() : processes,
        steps == null ? List.of() : steps.stream().map(ManifestStep::summary).toList(),
        machine,
        lost == null ? List.of() : lost);
  }

  /**
   * The CUDA processes of the tree.
   *
   * @return the root alone for the image of a process
   */
  public List<ManifestMember> cudaProcesses() {
    return members == null ? List.of(new ManifestMember(pid, startTicks, gpuBytes)) : members;
  }

  /** Only a tree with a pid namespace of its own has the process 1. */
  private static void refuse(int first) {
    throw new IllegalArgumentException(
        "an image of a process that is not isolated cannot have the member " + first);
  }

  /**
   * The memory files.
   *
   * @return empty where there are none
   */
  public List<MemoryFile> memoryFiles() {
    return memory == null ? List.of() : memory;
  }

  /**
   * The size of the image files.
   *
   * @return bytes
   */
  public long bytes() {
    return files.stream().mapToLong(ChecksummedFile::bytes).sum();
  }

  /**
   * What a restore must know about the dump.
   *
   * @param criu CRIU's switches, as {@link CriuOptions.Builder#set(String)} reads them
   * @param hostMounts of an {@linkplain dev.gpuprocess.options.LaunchOptions.Builder#isolated
   *     isolated} process the mount points at which it has what the host has there; null for any
   *     other
   * @param boundMounts of a tree with a mount namespace of its own the mount points at which it has
   *     what the host has, and the paths that the host has for that; null for any other, and in
   *     images of earlier versions
   * @param plugin the plugin of CRIU that a restore needs, such as {@code amdgpu_plugin}; null for
   *     none
   */
  public record Options(
      List<String> criu,
      @Nullable List<String> hostMounts,
      @Nullable Map<String, String> boundMounts,
      @Nullable String plugin) {

    private static final Pattern PLUGIN = Pattern.compile("[a-z][a-z0-9_]{0,63}");

    /**
     * Checks that nothing is missing or impossible.
     *
     * @throws IllegalArgumentException when a value is impossible
     */
    public Options {
      criu = List.copyOf(criu);
      if (!settings(parse(criu)).equals(criu)) {
        throw new IllegalArgumentException("these are not options of a restore: " + criu);
      }
      hostMounts = hostMounts == null ? null : List.copyOf(hostMounts);
      if (hostMounts != null && !hostMounts.stream().allMatch(point -> point.startsWith("/"))) {
        throw new IllegalArgumentException("these are not mount points: " + hostMounts);
      }
      boundMounts =
          boundMounts == null
              ? null
              : Collections.unmodifiableMap(new LinkedHashMap<>(boundMounts));
      if (boundMounts != null
          && !boundMounts.entrySet().stream()
              .allMatch(each -> each.getKey().startsWith("/") && each.getValue().startsWith("/"))) {
        throw new IllegalArgumentException("these are not mounts: " + boundMounts);
      }
      if (plugin != null && !PLUGIN.matcher(plugin).matches()) {
        throw new IllegalArgumentException("this is not the name of a plugin: " + plugin);
      }
    }

    /** Returns what a restore must know of the options of a dump. */
    public static List<String> settings(CriuOptions dump) {
      return dump.settings(
          each -> each.use() == CriuSwitch.Use.BOTH || each.use() == CriuSwitch.Use.RESTORE);
    }

    /** Returns the options of CRIU for a restore. */
    public CriuOptions criuOptions() {
      return parse(criu);
    }

    private static CriuOptions parse(List<String> settings) {
      CriuOptions.Builder all = CriuOptions.builder();
      settings.forEach(all::set);
      try {
        return all.build();
      } catch (IllegalStateException e) {
        throw new IllegalArgumentException(e);
      }
    }

    /** Returns the paths that a restore mounts; empty without a mount namespace of its own. */
    public List<String> mountedPaths() {
      return boundMounts != null
          ? List.copyOf(boundMounts.values())
          : hostMounts != null ? hostMounts : List.of();
    }

    /**
     * Whether the process has a pid namespace of its own, so that the image can be restored many
     * times at once.
     *
     * @return whether it was launched isolated
     */
    public boolean isIsolated() {
      return hostMounts != null;
    }
  }
}
