package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResourceException;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.image.ImageTarget;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.proc.AmdDevices;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.CriuVersion;
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
 * What can be checked before a dump touches anything: its options, CRIU, the directory and its
 * room, and what the tree has open. A snapshot checks before the process leaves its GPU, the dump
 * checks again, and the doctor reports the same.
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
   * @param members the CUDA processes that are moved with it
   * @param onGpu whether they are still on its GPU: what is there comes to the host first, and what
   *     the driver holds open of it is let go by a suspend
   */
  public DumpCheck(
      EngineContext context,
      ProcessIdentity process,
      List<ProcessIdentity> members,
      Path directory,
      DumpOptions options,
      boolean onGpu) {
    this(context, process, members, directory, options, onGpu, null);
  }

  /**
   * Prepares the check of a tree whose GPU state a plugin of CRIU moves.
   *
   * @param plugin which one
   */
  public DumpCheck(
      EngineContext context,
      ProcessIdentity process,
      Path directory,
      DumpOptions options,
      GpuPlugin plugin) {
    this(context, process, List.of(), directory, options, false, plugin);
  }

  private DumpCheck(
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

  /** Throws what the dump would throw, as far as it can be known; touches nothing. */
  public void require() {
    CriuVersion unusedVersion = context.criu().version();
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
      Map<Path, CarriedJobFile> unusedFiles =
          CarriedState.cudaJobFiles(process.pid(), context.cuda().version());
    }
    requireSupported(context.criu(), Failure.of("dump", process.pid()));
  }

  /** A directory that does not answer within this time will not take an image either. */
  private Duration limit() {
    Duration call = context.timeouts().call();
    return call.compareTo(options.deadline()) < 0 ? call : options.deadline();
  }

  /** The checks of directories by subject, for the doctor; each returns what is fine or throws. */
  public Map<String, Supplier<String>> looks() {
    Map<String, Supplier<String>> looks = new LinkedHashMap<>();
    looks.put("image directory", this::lookAtPlace);
    looks.put("temporary files", this::lookAtTemporaryFiles);
    return looks;
  }

  private String lookAtPlace() {
    long needed = bytes();
    long room = ImageTarget.check(directory, process, needed);
    return "%s has room for %s, about %s needed"
        .formatted(directory, Bytes.text(room), Bytes.text(needed));
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
            + ProcFs.descendants(process.pid()).stream().mapToLong(ProcFs::anonymousBytes).sum();
    return onGpu ? onHost + bytesOnGpus() : onHost;
  }

  /** GPU memory that a process has in files; those in memory are counted as its own already. */
  private static long bytesInFiles(int pid) {
    return SaveFileMappings.candidates(pid).stream()
        .filter(each -> !SaveFileMappings.isNameless(each.name()) && !isInMemory(each.name()))
        .mapToLong(each -> each.addresses().bytes())
        .sum();
  }

  /** What has lost its name is taken for a file on a disk. */
  private static boolean isInMemory(String file) {
    try {
      return !SaveFileMappings.isDeleted(file)
          && FileSystemStatus.of(NativePath.of(file)).isInMemory();
    } catch (IOException notSeen) {
      return false;
    }
  }

  private long bytesOnGpus() {
    // Where NVML does not know, the dump checks again once the memory is on the host.
    Optional<GpuReading> reading = context.gpus().read();
    return members.stream()
        .mapToLong(each -> GpuUsage.of(each.pid(), reading).bytes())
        .reduce(0, Long::sum);
  }

  private void requireNoGpu(int child) {
    Optional<String> device = GpuHandles.of(child, () -> {}).first();
    if (device.isPresent()) {
      throw ChildRefusal.holds(
          child, process.pid(), device.get(), "; process %s runs on".formatted(process.pid()));
    }
  }

  /**
   * CRIU would find these too, but only after it has stopped the tree, and by number rather than by
   * name.
   */
  void requireSupported(CriuDriver criu, Failure failure) {
    if (plugin != null) {
      Path unused = criu.locate(plugin);
    }
    List<Finding> certain =
        findings(criu).stream()
            .filter(finding -> finding.isProblem() && finding.resource() != null)
            .toList();
    if (certain.isEmpty()) {
      return;
    }
    List<UnsupportedResource> resources =
        certain.stream().flatMap(finding -> Stream.ofNullable(finding.resource())).toList();
    throw new UnsupportedResourceException(
        "process %s cannot be dumped: %s".formatted(process.pid(), words(certain)),
        failure,
        CriuFailure.NOT_STARTED,
        resources,
        null);
  }

  /** The message names the first few; its data has all. */
  private static String words(List<Finding> findings) {
    List<String> all = findings.stream().map(Finding::toString).toList();
    StringBuilder text = new StringBuilder();
    int told = 0;
    while (told < all.size() && text.length() + all.get(told).length() < LONGEST_MESSAGE) {
      text.append(told == 0 ? "" : ". ").append(all.get(told++));
    }
    if (told == 0) {
      text.append(all.get(told++), 0, LONGEST_MESSAGE).append("...");
    }
    return told == all.size()
        ? text.toString()
        : text + ". And %s more".formatted(all.size() - told);
  }

  /** What CRIU would refuse, without what a suspend removes. */
  public List<Finding> findings(CriuDriver criu) {
    return criu.preflight(process, options).stream()
        .filter(found -> !isLetGo(found) && !isSaveFileMappings(found) && !isReleased(found))
        .filter(found -> !isOfPlugin(found))
        .toList();
  }

  /** CRIU asks the plugin about these. */
  private boolean isOfPlugin(Finding finding) {
    UnsupportedResource resource = finding.resource();
    return plugin == GpuPlugin.AMDGPU && resource != null && AmdDevices.isDevice(resource.name());
  }

  /** What an earlier image holds of its memory is copied before CRIU looks, or the dump refused. */
  private boolean isSaveFileMappings(Finding finding) {
    UnsupportedResource resource = finding.resource();
    return resource != null && !members.isEmpty() && SaveFileMappings.isName(resource.name());
  }

  private boolean isMember(int pid) {
    return members.stream().anyMatch(each -> each.pid() == pid);
  }

  /** A suspend closes the driver's device files of the process itself. */
  private boolean isLetGo(Finding finding) {
    UnsupportedResource resource = finding.resource();
    return onGpu
        && resource != null
        && isMember(resource.pid())
        && GpuHandles.isDevice(resource.name());
  }

  /** What children inherited is taken from them before CRIU looks, or the dump refused. */
  private boolean isReleased(Finding finding) {
    UnsupportedResource resource = finding.resource();
    return options.releaseInheritedGpu()
        && resource != null
        && !isMember(resource.pid())
        && GpuHandles.isDevice(resource.name());
  }

  /** Whether a state is one of a process that has its memory on the GPU. */
  public static boolean isOnGpu(@Nullable ProcessState state) {
    return state == ProcessState.RUNNING || state == ProcessState.LOCKED;
  }
}
