package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.internal.attributes.SharedFile;
import dev.gpuprocess.internal.attributes.TreeAttributes;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.extras.EmbeddedJobFile;
import dev.gpuprocess.internal.extras.ImageExtras;
import dev.gpuprocess.internal.extras.TreeMounts;
import dev.gpuprocess.internal.image.ImageTarget;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.proc.GpuFiles;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.GpuPlugin;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The checks that a dump makes before it changes anything: its options, CRIU, the directory and its
 * free space, and the open files of the tree. A snapshot checks before the process leaves its GPU,
 * the dump checks again, and the doctor reports the same findings.
 */
public final class DumpCheck {

  private static final int LONGEST_MESSAGE = 8000;

  private final EngineContext context;
  private final ProcessIdentity process;
  private final List<ProcessIdentity> members;
  private final Path directory;
  private final DumpOptions options;
  private final boolean onGpu;
  private final @Nullable GpuPlugin plugin;

  /**
   * Prepares a check.
   *
   * @param process the root of the tree
   * @param members the processes with CUDA state
   * @param onGpu whether the members are on their GPUs: a suspend first moves their memory to the
   *     host and closes their device files
   * @param plugin the plugin of CRIU that moves the GPU state; null for the CUDA driver
   */
  public DumpCheck(
      EngineContext context,
      ProcessIdentity process,
      List<ProcessIdentity> members,
      Path directory,
      DumpOptions options,
      boolean onGpu,
      @Nullable GpuPlugin plugin) {
    this.plugin = plugin;
    this.context = context;
    this.process = process;
    this.members = List.copyOf(members);
    this.directory = directory;
    this.options = options;
    this.onGpu = onGpu;
  }

  /** Throws the exceptions of a dump, as far as they can be foreseen. Changes nothing. */
  void require() {
    String unusedVersion = context.criu().version();
    BoundedDiskTask disk =
        new BoundedDiskTask("dump", process.pid(), directory.toAbsolutePath(), limit());
    String unused = disk.run("look at", () -> lookAtPlace() + lookAtTemporaryFiles(), found -> {});
    if (!options.releaseInheritedGpu()) {
      for (int child : ProcFs.descendants(process.pid())) {
        if (!isMember(child)) {
          requireNoGpu(child);
        }
      }
    }
    if (plugin == null) {
      Map<Path, EmbeddedJobFile> unusedFiles =
          ImageExtras.cudaJobFiles(process.pid(), context.cuda().version());
    }
    requireSupported(context.criu(), Failure.of("dump", process.pid()));
  }

  /** Returns the time in which the directory must answer. */
  private Duration limit() {
    return Durations.min(context.timeouts().call(), options.deadline());
  }

  /**
   * Returns the checks of directories by subject, for the doctor; each returns a text or throws.
   */
  public Map<String, Supplier<String>> looks() {
    Map<String, Supplier<String>> looks = new LinkedHashMap<>();
    looks.put("image directory", this::lookAtPlace);
    looks.put("temporary files", this::lookAtTemporaryFiles);
    return looks;
  }

  private String lookAtPlace() {
    long needed = bytes();
    long free = ImageTarget.check(directory, process, needed);
    return "%s has %s free, about %s needed"
        .formatted(directory, Bytes.text(free), Bytes.text(needed));
  }

  private String lookAtTemporaryFiles() {
    Path temporary = Path.of(System.getProperty("java.io.tmpdir"));
    if (!Files.isDirectory(temporary) || !Files.isWritable(temporary)) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          "CRIU's log cannot be written to %s: set java.io.tmpdir to a directory that can be written"
              .formatted(temporary),
          Failure.of("dump", process.pid()),
          null);
    }
    return temporary + " can be written";
  }

  /** Estimates the size of the image, in bytes. */
  long bytes() {
    long onHost =
        ProcFs.anonymousBytes(process.pid())
            + ProcFs.tree(process.pid()).stream().mapToLong(DumpCheck::bytesInFiles).sum()
            + ProcFs.descendants(process.pid()).stream().mapToLong(ProcFs::anonymousBytes).sum()
            + bytesInSharedFiles();
    return onGpu ? onHost + bytesOnGpus() : onHost;
  }

  private long bytesInSharedFiles() {
    WorkLimit limit = WorkLimit.scanning("dump", process.pid(), options.deadline());
    return SharedFile.of(process.pid(), limit).stream()
        .mapToLong(each -> each.node().bytes())
        .sum();
  }

  /** Returns the GPU memory in files on a disk; files in memory count as anonymous memory. */
  private static long bytesInFiles(int pid) {
    return SaveFileMappings.candidates(pid).stream()
        .filter(each -> !SaveFileMappings.isNameless(each.name()) && !isInMemory(each.name()))
        .mapToLong(each -> each.addresses().bytes())
        .sum();
  }

  /** Returns whether a file is in memory; a file without a name counts as a file on a disk. */
  private static boolean isInMemory(String file) {
    try {
      return !SaveFileMappings.isDeleted(file)
          && FileSystemStatus.of(NativePath.of(file)).isInMemory();
    } catch (IOException notSeen) {
      return false;
    }
  }

  private long bytesOnGpus() {
    // If NVML does not report it, the dump checks again when the memory is on the host.
    Optional<GpuReading> reading = context.gpus().read();
    return members.stream()
        .mapToLong(each -> GpuUsage.of(each.pid(), reading).bytes())
        .reduce(0, Long::sum);
  }

  private void requireNoGpu(int child) {
    Optional<String> device = GpuHandles.of(child, () -> {}).first();
    if (device.isPresent()) {
      throw TreeCheck.holds(
          child, process.pid(), device.get(), "; process %s runs on".formatted(process.pid()));
    }
  }

  /**
   * Refuses resources that CRIU cannot dump. CRIU finds them too, but only after it has stopped the
   * tree, and reports numbers instead of names.
   */
  void requireSupported(CriuDriver criu, Failure failure) {
    if (plugin != null) {
      Path unused = criu.locate(plugin);
    }
    refuse(findings(criu), failure);
  }

  /**
   * Finds the attributes of the tree that CRIU does not restore, and refuses those whose loss is
   * not allowed.
   *
   * @param touches whether threads of the tree may make system calls for it
   */
  TreeAttributes requireAttributes(boolean touches) {
    WorkLimit limit = WorkLimit.scanning("dump", process.pid(), options.deadline());
    TreeAttributes attributes =
        touches
            ? TreeAttributes.examined(process.pid(), limit)
            : TreeAttributes.visible(process.pid(), limit);
    refuse(attributes.findings(options.allowedLosses()), Failure.of("dump", process.pid()));
    if (touches) {
      attributes.log(process.pid());
    }
    return attributes;
  }

  /** Returns the attributes that CRIU does not restore, as far as {@code /proc} shows them. */
  public List<Finding> attributes() {
    WorkLimit limit = WorkLimit.scanning("doctor", process.pid(), options.deadline());
    return TreeAttributes.visible(process.pid(), limit).findings(options.allowedLosses());
  }

  private void refuse(List<Finding> findings, Failure failure) {
    List<Finding> certain =
        findings.stream()
            .filter(finding -> finding.isProblem() && finding.resource() != null)
            .toList();
    if (certain.isEmpty()) {
      return;
    }
    List<UnsupportedResource> resources =
        certain.stream().flatMap(finding -> Stream.ofNullable(finding.resource())).toList();
    throw CriuException.unsupportedResource(
        "process %s cannot be dumped: %s".formatted(process.pid(), text(certain)),
        failure,
        CriuFailure.NOT_STARTED,
        resources,
        null);
  }

  /** Returns the first findings as text; the exception has all of them as data. */
  private static String text(List<Finding> findings) {
    List<String> all = findings.stream().map(Finding::toString).toList();
    StringBuilder text = new StringBuilder();
    int used = 0;
    while (used < all.size() && text.length() + all.get(used).length() < LONGEST_MESSAGE) {
      text.append(used == 0 ? "" : ". ").append(all.get(used++));
    }
    if (used == 0) {
      text.append(all.get(used++), 0, LONGEST_MESSAGE).append("...");
    }
    return used == all.size()
        ? text.toString()
        : text + ". And %s more".formatted(all.size() - used);
  }

  /** Returns the resources that CRIU would refuse, without those that a suspend removes. */
  public List<Finding> findings(CriuDriver criu) {
    DumpOptions all =
        TreeMounts.of(process.pid(), options).map(each -> each.with(options)).orElse(options);
    return criu.preflight(process, all).stream()
        .filter(
            found -> !isClosedBySuspend(found) && !isSaveFileMappings(found) && !isReleased(found))
        .filter(found -> !isOfPlugin(found))
        .toList();
  }

  /** Returns whether the plugin dumps the resource. */
  private boolean isOfPlugin(Finding finding) {
    UnsupportedResource resource = finding.resource();
    return plugin == GpuPlugin.AMDGPU && resource != null && GpuFiles.isAmdDevice(resource.name());
  }

  /** Returns whether it is a mapped memory file, which the dump handles before CRIU starts. */
  private boolean isSaveFileMappings(Finding finding) {
    UnsupportedResource resource = finding.resource();
    return resource != null && !members.isEmpty() && SaveFileMappings.isName(resource.name());
  }

  private boolean isMember(int pid) {
    return members.stream().anyMatch(each -> each.pid() == pid);
  }

  /** Returns whether it is a device file of a member, which a suspend closes. */
  private boolean isClosedBySuspend(Finding finding) {
    UnsupportedResource resource = finding.resource();
    return onGpu
        && resource != null
        && isMember(resource.pid())
        && GpuFiles.isNvidiaDevice(resource.name());
  }

  /** Returns whether it is a device file of a child, which the dump takes before CRIU starts. */
  private boolean isReleased(Finding finding) {
    UnsupportedResource resource = finding.resource();
    return options.releaseInheritedGpu()
        && resource != null
        && !isMember(resource.pid())
        && GpuFiles.isNvidiaDevice(resource.name());
  }

  /** Returns whether a process in this state has its memory on the GPU. */
  public static boolean isOnGpu(@Nullable ProcessState state) {
    return state == ProcessState.RUNNING || state == ProcessState.LOCKED;
  }
}
