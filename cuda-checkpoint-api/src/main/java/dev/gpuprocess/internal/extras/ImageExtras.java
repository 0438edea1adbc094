package dev.gpuprocess.internal.extras;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.internal.attributes.SharedFile;
import dev.gpuprocess.internal.attributes.SocketSettings;
import dev.gpuprocess.internal.attributes.SystemCallSettings;
import dev.gpuprocess.internal.attributes.TreeAttributes;
import dev.gpuprocess.internal.launch.CarriedNativeFile;
import dev.gpuprocess.internal.launch.CudaJobFile;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.TaskSettings;
import dev.gpuprocess.internal.linux.UnreadableImage;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ResourceLimits;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.IoAction;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.RestoreListener;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The state that CRIU does not restore, or not always, and this library does: CPU affinity and I/O
 * priority of the tasks, the performance files that other JVMs remove, the files of this library
 * that processes have mapped, the files that they share memory through, and the CUDA driver's job
 * file. An image holds them in a file beside CRIU's files, with a checksum and a signature like
 * those; images of earlier versions have no such file.
 */
public final class ImageExtras implements RestoreListener {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");
  public static final String FILE = "carried.txt";

  private final List<TaskSettings> tasks;
  private final List<JvmPerformanceFile> files;

  /** By path: all processes of a tree share a file. */
  private final Map<Path, CarriedNativeFile> jobFiles;

  private final Map<Path, EmbeddedJobFile> cudaJobFiles;
  private final List<SharedFileContent> sharedFiles;
  private final List<SocketSettings> sockets;
  private final List<SystemCallSettings> calls;
  private final List<OutsideFile> outsideFiles;
  private final List<ResourceLimits> limits;
  private final List<String> lowered = new ArrayList<>();
  private final Set<Attribute> lost = EnumSet.noneOf(Attribute.class);

  /** The performance files that were created, by their description in the image. */
  private final Map<JvmPerformanceFile, FileNode> made = new LinkedHashMap<>();

  private final List<EmbeddedJobFile.Placed> placed = new ArrayList<>();

  /** The shared files that were created. */
  private final Map<SharedFileContent, FileNode> createdFiles = new LinkedHashMap<>();

  private ImageExtras(
      List<TaskSettings> tasks,
      List<JvmPerformanceFile> files,
      Map<Path, CarriedNativeFile> jobFiles,
      Map<Path, EmbeddedJobFile> cudaJobFiles,
      List<SharedFileContent> sharedFiles,
      List<SocketSettings> sockets,
      List<SystemCallSettings> calls,
      List<OutsideFile> outsideFiles,
      List<ResourceLimits> limits) {
    this.limits = limits;
    this.outsideFiles = outsideFiles;
    this.calls = calls;
    this.sockets = sockets;
    this.sharedFiles = sharedFiles;
    this.tasks = tasks;
    this.files = files;
    this.jobFiles = jobFiles;
    this.cudaJobFiles = cudaJobFiles;
  }

  /**
   * Collects the extras of a stopped tree, without those that cannot be read. A job file that
   * cannot be read is an error.
   *
   * @param cudaVersion the version of the CUDA driver, which decides whether there are job files
   * @throws dev.gpuprocess.error.ImageException with reason JOB_FILE when an image cannot hold the
   *     job file
   */
  public static ImageExtras of(int root, int cudaVersion) {
    List<TaskSettings> tasks = new ArrayList<>();
    List<JvmPerformanceFile> files = new ArrayList<>();
    Map<Path, CarriedNativeFile> jobFiles = new LinkedHashMap<>();
    List<ResourceLimits> limits = new ArrayList<>();
    for (int pid : ProcFs.tree(root)) {
      try {
        for (int task : ProcFs.threads(pid)) {
          TaskSettings.of(task).ifPresent(tasks::add);
        }
        ResourceLimits.of(pid).ifPresent(limits::add);
        JvmPerformanceFile.of(pid).ifPresent(files::add);
        CarriedNativeFile.of(pid).ifPresent(jobFile -> jobFiles.put(jobFile.path(), jobFile));
      } catch (IOException e) {
        LOG.warn(
            "some settings of process {} and its threads are missing in the image: {}",
            pid,
            e.getMessage());
      }
    }
    ImageExtras extras =
        new ImageExtras(
            tasks,
            files,
            jobFiles,
            cudaJobFiles(root, cudaVersion),
            new ArrayList<>(),
            new ArrayList<>(),
            new ArrayList<>(),
            TreeMounts.of(root).isPresent() ? OutsideFile.of(root) : List.of(),
            limits);
    extras.lookAtSockets(root);
    return extras;
  }

  private void lookAtSockets(int root) {
    Set<Long> seen = new HashSet<>();
    for (int pid : ProcFs.tree(root)) {
      try {
        sockets.addAll(SocketSettings.of(pid, seen));
      } catch (NativeCallException e) {
        LOG.warn("socket options of process {} are missing in the image: {}", pid, e.getMessage());
        lost.add(Attribute.SOCKET_OPTIONS);
      }
    }
  }

  /** Adds what was read of the processes by system calls. */
  public void add(List<SystemCallSettings> settings) {
    calls.addAll(settings);
  }

  /**
   * Has the restored processes set what only they can set. To be called before they are resumed.
   *
   * @param time how long the calls of a process may take
   * @throws IOException when a process would be less confined than it was
   */
  public void putSettingsBack(int root, Duration time) throws IOException {
    if (calls.isEmpty()) {
      return;
    }
    Map<Integer, Integer> numbers = numbers(root);
    for (SystemCallSettings each : calls) {
      Integer pid = numbers.get(each.pid());
      Optional<ProcessIdentity> process = pid == null ? Optional.empty() : ProcessIdentity.of(pid);
      if (process.isPresent()) {
        putBack(each, process.get(), numbers, time);
      }
    }
  }

  private static void putBack(
      SystemCallSettings settings,
      ProcessIdentity process,
      Map<Integer, Integer> numbers,
      Duration time)
      throws IOException {
    try {
      settings.putThreadsBack(process, task -> numbers.getOrDefault(task, 0), time);
    } catch (UntraceableException | IOException e) {
      LOG.warn(
          "personality or NUMA policy of process {} was not restored: {}",
          process.pid(),
          e.getMessage());
    }
    try {
      settings.putBack(process, time);
    } catch (UntraceableException | IOException e) {
      if (settings.confines()) {
        throw new IOException(e.getMessage(), e);
      }
      LOG.warn("settings of process {} were not restored: {}", process.pid(), e.getMessage());
    }
  }

  private static Map<Integer, Integer> numbers(int root) {
    Map<Integer, Integer> numbers = new HashMap<>();
    for (int pid : ProcFs.tree(root)) {
      ProcFs.threads(pid)
          .forEach(task -> numbers.put(ProcFs.innermostPid(task).orElse(task), task));
    }
    return numbers;
  }

  /** Returns the attributes that could not be read. */
  public Set<Attribute> lost() {
    return lost;
  }

  /**
   * Copies the content of the files that a stopped tree has mapped as shared memory.
   *
   * @param attributes which files to leave
   * @param images the directory of the copies
   * @param time how long it may take
   * @throws IOException when a file cannot be copied
   */
  public void copySharedFiles(int root, TreeAttributes attributes, Path images, Duration time)
      throws IOException {
    WorkLimit limit = WorkLimit.scanning("dump", root, time);
    for (SharedFile file : SharedFile.of(root, limit)) {
      Optional<Path> path = file.path().filter(known -> !cudaJobFiles.containsKey(known));
      if (path.isPresent() && attributes.holds(file)) {
        SharedFileContent.copy(file, path.get(), sharedFiles.size(), images, limit.remaining())
            .ifPresent(sharedFiles::add);
      }
    }
  }

  /**
   * Reads the job files of a tree.
   *
   * @param cudaVersion the version of the CUDA driver, which decides whether there are job files
   * @return by path: all processes of a tree share a file
   * @throws dev.gpuprocess.error.ImageException with reason JOB_FILE when an image cannot hold the
   *     job file
   */
  public static Map<Path, EmbeddedJobFile> cudaJobFiles(int root, int cudaVersion) {
    Map<Path, EmbeddedJobFile> found = new LinkedHashMap<>();
    if (CudaJobFile.isKnownTo(cudaVersion)) {
      boolean isolated = TreeMounts.of(root).map(TreeMounts::isolated).orElse(false);
      for (int pid : ProcFs.tree(root)) {
        EmbeddedJobFile.of(root, pid, isolated).ifPresent(file -> found.put(file.path(), file));
      }
    }
    return found;
  }

  /** Returns the text that {@link #read} reads. */
  public byte[] text() {
    return Stream.of(
            tasks,
            files,
            jobFiles.values(),
            cudaJobFiles.values(),
            sharedFiles,
            sockets,
            calls,
            outsideFiles,
            limits)
        .flatMap(Collection::stream)
        .map(line -> line + "\n")
        .collect(Collectors.joining())
        .getBytes(StandardCharsets.US_ASCII);
  }

  /** Returns the files that were opened outside of the mount namespace of the tree. */
  public List<OutsideFile> outsideFiles() {
    return List.copyOf(outsideFiles);
  }

  /** Returns the files of this library that a restore writes where they are missing. */
  public Set<Path> files() {
    return Set.copyOf(jobFiles.keySet());
  }

  /**
   * Reads the extras of an image.
   *
   * @throws dev.gpuprocess.error.ImageException when the file has another format or cannot be read
   */
  public static ImageExtras read(int pid, Path images) {
    List<TaskSettings> tasks = new ArrayList<>();
    List<JvmPerformanceFile> files = new ArrayList<>();
    Map<Path, CarriedNativeFile> jobFiles = new LinkedHashMap<>();
    Map<Path, EmbeddedJobFile> cudaJobFiles = new LinkedHashMap<>();
    List<SharedFileContent> sharedFiles = new ArrayList<>();
    List<SocketSettings> sockets = new ArrayList<>();
    List<SystemCallSettings> calls = new ArrayList<>();
    List<OutsideFile> outsideFiles = new ArrayList<>();
    List<ResourceLimits> limits = new ArrayList<>();
    try {
      for (String line : Files.readAllLines(images.resolve(FILE), StandardCharsets.US_ASCII)) {
        Optional<TaskSettings> task = TaskSettings.parse(line);
        task.ifPresent(tasks::add);
        Optional<CarriedNativeFile> jobFile = CarriedNativeFile.parse(line);
        jobFile.ifPresent(found -> jobFiles.put(found.path(), found));
        Optional<EmbeddedJobFile> cudaJobFile = EmbeddedJobFile.parse(line);
        cudaJobFile.ifPresent(found -> cudaJobFiles.put(found.path(), found));
        Optional<SharedFileContent> sharedFile = SharedFileContent.parse(line);
        sharedFile.ifPresent(sharedFiles::add);
        Optional<SocketSettings> socket = SocketSettings.parse(line);
        socket.ifPresent(sockets::add);
        Optional<SystemCallSettings> call = SystemCallSettings.parse(line);
        call.ifPresent(calls::add);
        Optional<OutsideFile> outsideFile = OutsideFile.parse(line);
        outsideFile.ifPresent(outsideFiles::add);
        Optional<ResourceLimits> limit = ResourceLimits.parse(line);
        limit.ifPresent(limits::add);
        if (task.isEmpty()
            && jobFile.isEmpty()
            && cudaJobFile.isEmpty()
            && sharedFile.isEmpty()
            && socket.isEmpty()
            && call.isEmpty()
            && outsideFile.isEmpty()
            && limit.isEmpty()) {
          files.add(
              JvmPerformanceFile.parse(line)
                  .orElseThrow(
                      () -> new IOException("an unknown line: " + Printable.of(line, 200))));
        }
      }
    } catch (NoSuchFileException ofAnEarlierVersion) {
      LOG.debug("no {} in the image of process {}", FILE, pid);
    } catch (IOException | RuntimeException e) {
      throw UnreadableImage.of(
          FILE + " in the image of process " + pid + " cannot be read",
          Failure.of("restore", pid),
          e);
    }
    return new ImageExtras(
        tasks, files, jobFiles, cudaJobFiles, sharedFiles, sockets, calls, outsideFiles, limits);
  }

  /**
   * Writes copies of the CUDA driver's job files where the processes expect them. To be called
   * before CRIU is started, and before {@link #undo} or {@link #release}.
   *
   * @param pid the pid of the root in the image
   * @throws dev.gpuprocess.error.ImageException with reason JOB_FILE when the path is taken
   */
  public void putCudaJobFilesBack(int pid, StateDirectory state) {
    for (EmbeddedJobFile file : cudaJobFiles.values()) {
      placed.add(file.putBack(pid, state));
    }
  }

  /**
   * Sets the files that processes shared memory through to what they were at the dump. To be called
   * before CRIU is started, and before {@link #undo}.
   *
   * @param pid the pid of the root in the image
   * @param images the directory of the copies
   * @throws dev.gpuprocess.error.ImageException with reason DIRECTORY when a file cannot be put
   *     back, or another process uses it
   */
  public void putSharedFilesBack(int pid, Path images, Duration time) {
    for (SharedFileContent file : sharedFiles) {
      file.putBack(pid, images, time).ifPresent(node -> createdFiles.put(file, node));
    }
  }

  /** Releases the locks of the job files, after the restore. */
  public void release() {
    placed.forEach(EmbeddedJobFile.Placed::release);
    placed.clear();
  }

  /**
   * Writes the files that are missing. This is as late as possible: until the pid exists, any JVM
   * that starts removes performance files.
   */
  @Override
  public void preRestore() {
    for (CarriedNativeFile jobFile : jobFiles.values()) {
      try {
        jobFile.putBack();
      } catch (IOException e) {
        // If the file is missing, CRIU reports it.
        LOG.warn(
            "{} cannot be written: {}",
            Printable.of(jobFile.path().toString()),
            Printable.of(String.valueOf(e.getMessage())));
      }
    }
    for (JvmPerformanceFile file : files) {
      try {
        file.putBack().ifPresent(node -> made.put(file, node));
      } catch (IOException e) {
        // If the file is missing, CRIU reports it.
        LOG.warn(
            "{} cannot be written: {}",
            Printable.of(file.path().toString()),
            Printable.of(String.valueOf(e.getMessage())));
      }
    }
  }

  /** Applies the settings of tasks and sockets before the tasks run. */
  @Override
  public void postRestore(int root) {
    Map<Integer, Integer> numbers = numbers(root);
    for (TaskSettings settings : tasks) {
      Integer task = numbers.get(settings.task());
      if (task != null) {
        try {
          settings.putBack(task);
        } catch (IOException e) {
          LOG.warn("some settings of task {} were not restored: {}", task, e.getMessage());
        }
      }
    }
    for (SocketSettings socket : sockets) {
      Integer process = numbers.get(socket.pid());
      if (process != null) {
        putBack(socket, process);
      }
    }
    for (ResourceLimits before : limits) {
      Optional.ofNullable(numbers.get(before.pid()))
          .flatMap(ResourceLimits::of)
          .ifPresent(now -> lowered.addAll(before.above(now)));
    }
  }

  /**
   * Returns the resource limits that the processes have no more, a text for each: CRIU had lower
   * ones, and not the right to raise them.
   */
  public List<String> lowered() {
    return lowered.stream().distinct().toList();
  }

  private static void putBack(SocketSettings socket, int process) {
    try {
      List<String> refused = socket.putBack(process);
      if (!refused.isEmpty()) {
        LOG.warn(
            "options of socket {} of process {} were not restored: {}",
            socket.descriptor(),
            process,
            refused);
      }
    } catch (NativeCallException e) {
      LOG.warn("the options of a socket of process {} were not restored", process, e);
    }
  }

  /** Removes the files that were written, after a restore that failed. */
  public void undo() {
    made.forEach((file, node) -> undo(file.path(), () -> file.remove(node)));
    createdFiles.forEach((file, node) -> undo(file.path(), () -> file.remove(node)));
    made.clear();
    placed.forEach(each -> undo(each.file().path(), each::undo));
  }

  private static void undo(Path path, IoAction task) {
    try {
      task.run();
    } catch (IOException e) {
      LOG.warn(
          "{} was written for a failed restore and could not be removed: {}",
          Printable.of(path.toString()),
          Printable.of(String.valueOf(e.getMessage())));
    }
  }
}
