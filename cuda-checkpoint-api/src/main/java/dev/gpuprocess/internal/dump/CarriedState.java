package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.internal.launch.CarriedNativeFile;
import dev.gpuprocess.internal.launch.CudaJobFile;
import dev.gpuprocess.internal.linux.UnreadableImage;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.IoAction;
import dev.gpuprocess.spi.RestoreListener;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
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
 * What CRIU does not restore and this library does: CPU affinity and I/O priority of the tasks, the
 * performance files that other JVMs remove, the files of this library that processes have mapped,
 * and the CUDA driver's job file. Kept in a file beside CRIU's, checksummed and signed like them;
 * images of earlier versions have none.
 */
public final class CarriedState implements RestoreListener {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");
  static final String FILE = "carried.txt";

  private final List<TaskSettings> tasks;
  private final List<JvmPerformanceFile> files;

  /** By path: all processes of a tree have the same. */
  private final Map<Path, CarriedNativeFile> jobFiles;

  private final Map<Path, CarriedJobFile> cudaJobFiles;

  /** What was created, by what the image says of it. */
  private final Map<JvmPerformanceFile, FileNode> made = new LinkedHashMap<>();

  private final List<CarriedJobFile.Placed> placed = new ArrayList<>();

  private CarriedState(
      List<TaskSettings> tasks,
      List<JvmPerformanceFile> files,
      Map<Path, CarriedNativeFile> jobFiles,
      Map<Path, CarriedJobFile> cudaJobFiles) {
    this.tasks = tasks;
    this.files = files;
    this.jobFiles = jobFiles;
    this.cudaJobFiles = cudaJobFiles;
  }

  /**
   * Collects it from a stopped tree. What cannot be read is left out, but not a job file.
   *
   * @param cudaVersion of the driver, which may keep job files
   * @throws dev.gpuprocess.error.ImageException with reason JOB_FILE when it has one that cannot be
   *     carried
   */
  static CarriedState of(int root, int cudaVersion) {
    List<TaskSettings> tasks = new ArrayList<>();
    List<JvmPerformanceFile> files = new ArrayList<>();
    Map<Path, CarriedNativeFile> jobFiles = new LinkedHashMap<>();
    for (int pid : ProcFs.tree(root)) {
      try {
        for (int task : ProcFs.threads(pid)) {
          TaskSettings.of(task).ifPresent(tasks::add);
        }
        JvmPerformanceFile.of(pid).ifPresent(files::add);
        CarriedNativeFile.of(pid).ifPresent(jobFile -> jobFiles.put(jobFile.path(), jobFile));
      } catch (IOException e) {
        LOG.warn(
            "process {} will not get back all that it and its threads have: {}",
            pid,
            e.getMessage());
      }
    }
    return new CarriedState(tasks, files, jobFiles, cudaJobFiles(root, cudaVersion));
  }

  /**
   * The job files of a tree, by path: all processes of a job have the same.
   *
   * @param cudaVersion of the driver, which may keep none
   * @throws dev.gpuprocess.error.ImageException with reason JOB_FILE when it has one that cannot be
   *     carried
   */
  static Map<Path, CarriedJobFile> cudaJobFiles(int root, int cudaVersion) {
    Map<Path, CarriedJobFile> found = new LinkedHashMap<>();
    if (CudaJobFile.isKnownTo(cudaVersion)) {
      boolean isolated = Isolation.of(root).isPresent();
      for (int pid : ProcFs.tree(root)) {
        CarriedJobFile.of(pid, isolated).ifPresent(file -> found.put(file.path(), file));
      }
    }
    return found;
  }

  /** What {@link #read} reads. */
  byte[] text() {
    return Stream.of(tasks, files, jobFiles.values(), cudaJobFiles.values())
        .flatMap(Collection::stream)
        .map(line -> line + "\n")
        .collect(Collectors.joining())
        .getBytes(StandardCharsets.US_ASCII);
  }

  /** The files of this library that a restore puts back where they are missing. */
  Set<Path> files() {
    return Set.copyOf(jobFiles.keySet());
  }

  /**
   * Reads it from an image.
   *
   * @throws dev.gpuprocess.error.ImageException when it is not what this version writes, or cannot
   *     be read
   */
  public static CarriedState read(int pid, Path images) {
    List<TaskSettings> tasks = new ArrayList<>();
    List<JvmPerformanceFile> files = new ArrayList<>();
    Map<Path, CarriedNativeFile> jobFiles = new LinkedHashMap<>();
    Map<Path, CarriedJobFile> cudaJobFiles = new LinkedHashMap<>();
    try {
      for (String line : Files.readAllLines(images.resolve(FILE), StandardCharsets.US_ASCII)) {
        Optional<TaskSettings> task = TaskSettings.parse(line);
        task.ifPresent(tasks::add);
        Optional<CarriedNativeFile> jobFile = CarriedNativeFile.parse(line);
        jobFile.ifPresent(found -> jobFiles.put(found.path(), found));
        Optional<CarriedJobFile> cudaJobFile = CarriedJobFile.parse(line);
        cudaJobFile.ifPresent(found -> cudaJobFiles.put(found.path(), found));
        if (task.isEmpty() && jobFile.isEmpty() && cudaJobFile.isEmpty()) {
          files.add(JvmPerformanceFile.parse(line).orElseThrow(() -> new IOException("a line")));
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
    return new CarriedState(tasks, files, jobFiles, cudaJobFiles);
  }

  /**
   * Puts copies of the CUDA driver's job files where the processes expect them. To be done before
   * CRIU is started, and before {@link #removeWhatWasMade} or {@link #release}.
   *
   * @param pid of the root in the image
   * @throws dev.gpuprocess.error.ImageException with reason JOB_FILE when something else is there
   */
  void putCudaJobFilesBack(int pid, StateDirectory state) {
    for (CarriedJobFile file : cudaJobFiles.values()) {
      placed.add(file.putBack(pid, state));
    }
  }

  /** The restore has ended. */
  void release() {
    placed.forEach(CarriedJobFile.Placed::release);
    placed.clear();
  }

  /** As late as possible: until the pid exists, any JVM that starts removes these files again. */
  @Override
  public void preRestore() {
    for (CarriedNativeFile jobFile : jobFiles.values()) {
      try {
        jobFile.putBack();
      } catch (IOException e) {
        // If it is missing, CRIU will say so.
        LOG.warn(
            "{} cannot be put back: {}",
            Printable.of(jobFile.path().toString()),
            Printable.of(String.valueOf(e.getMessage())));
      }
    }
    for (JvmPerformanceFile file : files) {
      try {
        file.putBack().ifPresent(node -> made.put(file, node));
      } catch (IOException e) {
        // If it is missing, CRIU will say so.
        LOG.warn(
            "{} cannot be made again: {}",
            Printable.of(file.path().toString()),
            Printable.of(String.valueOf(e.getMessage())));
      }
    }
  }

  /** Before the tasks run, so that none runs on a CPU it may not use. */
  @Override
  public void postRestore(int root) {
    Map<Integer, Integer> numbers = new HashMap<>();
    for (int pid : ProcFs.tree(root)) {
      ProcFs.threads(pid)
          .forEach(task -> numbers.put(ProcFs.innermostPid(task).orElse(task), task));
    }
    for (TaskSettings settings : tasks) {
      Integer task = numbers.get(settings.task());
      if (task != null) {
        try {
          settings.putBack(task);
        } catch (IOException e) {
          LOG.warn("task {} did not get back all that it had: {}", task, e.getMessage());
        }
      }
    }
  }

  /** After a restore that failed. */
  public void removeWhatWasMade() {
    made.forEach((file, node) -> undo(file.path(), () -> file.remove(node)));
    made.clear();
    placed.forEach(each -> undo(each.file().path(), each::undo));
  }

  private static void undo(Path path, IoAction task) {
    try {
      task.run();
    } catch (IOException e) {
      LOG.warn(
          "{} was written for a restore that failed, and stays: {}",
          Printable.of(path.toString()),
          Printable.of(String.valueOf(e.getMessage())));
    }
  }
}
