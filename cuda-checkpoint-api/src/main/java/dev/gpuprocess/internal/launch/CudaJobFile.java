package dev.gpuprocess.internal.launch;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.ProcessDescriptor;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.options.LaunchOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The job file of driver 590 and later: its data about several processes of one job, in the sense
 * of the driver. {@code CUDA_CHECKPOINT_JOB_FILE} names it in the environment of each process, and
 * must name it in that of the controller's calls, too. Only the driver reads and writes the
 * content, with each checkpoint.
 *
 * <p>The job file that is created here for a launched process is empty, and in use as long as a
 * process is alive that was started with its name. The file is in the state directory. For an
 * isolated process it is in {@code /dev/shm}, of which the process and each of its copies has its
 * own: CRIU dumps it, and nothing remains of it.
 *
 * <p>It was tested with the simulated driver only.
 */
public final class CudaJobFile {

  /** The environment variable with the path of the file. */
  public static final String VARIABLE = "CUDA_CHECKPOINT_JOB_FILE";

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** CUDA 13.1, which came with driver 590. */
  private static final int FIRST_VERSION = 13010;

  /** An isolated process and each of its copies has its own directory here. */
  private static final Path MEMORY = Path.of("/dev/shm");

  private static final Path PROC_SELF = ProcFs.self();
  private static final Path ROOT = Path.of("/");

  private static final Pattern DESCRIPTOR = Pattern.compile("fd/(\\d{1,9})");
  private static final int O_ACCMODE = 3;

  private static final String DIRECTORY = "jobs.d";
  private static final String NAME = "cuda-job-%s-%s";
  private static final Pattern NAMES = Pattern.compile("cuda-job-(\\d{1,18})-[0-9a-f]{16}");
  private static final int RANDOM_BYTES = 8;

  private final Path path;

  /** The state directory that has it; null if an isolated process has it. */
  private final @Nullable StateDirectory state;

  /** Held until the process has started, so that the file does not count as left over. */
  private final @Nullable NamedLock held;

  private CudaJobFile(Path path, @Nullable StateDirectory state, @Nullable NamedLock held) {
    this.path = path;
    this.state = state;
    this.held = held;
  }

  /**
   * Returns whether a driver uses job files.
   *
   * @param cudaVersion the result of {@link CudaDriver#version}
   */
  public static boolean isKnownTo(int cudaVersion) {
    return cudaVersion >= FIRST_VERSION;
  }

  /** Returns whether there is a driver, and it uses job files. */
  private static boolean isKnownTo(CudaDriver cuda) {
    try {
      return isKnownTo(cuda.version());
    } catch (MachineUnfitException | IllegalStateException e) {
      LOG.debug("a process is launched without a job file", e);
      return false;
    }
  }

  /**
   * Chooses the name of the job file of a process that is about to be launched. The starter creates
   * the file.
   *
   * @return empty if the driver uses none, the environment of the process names one already, or the
   *     variable is to be removed from it
   * @throws IOException when no directory for it can be made
   */
  public static Optional<CudaJobFile> of(
      LaunchOptions options, CudaDriver cuda, StateDirectory state) throws IOException {
    boolean chosen =
        options.environment().containsKey(VARIABLE)
            || options.removedEnvironment().contains(VARIABLE)
            || (options.inheritEnvironment() && System.getenv(VARIABLE) != null);
    if (chosen || !isKnownTo(cuda)) {
      return Optional.empty();
    }
    byte[] random = new byte[RANDOM_BYTES];
    new SecureRandom().nextBytes(random);
    String name = NAME.formatted(ProcessKey.self().namespace(), HexFormat.of().formatHex(random));
    if (options.isolated() && Files.isDirectory(MEMORY)) {
      return Optional.of(new CudaJobFile(MEMORY.resolve("gpuprocess-" + name), null, null));
    }
    Path directory = state.makeDirectory(DIRECTORY);
    return Optional.of(
        new CudaJobFile(
            directory.resolve(name), state, state.tryLock(name, "launch").orElse(null)));
  }

  /** Returns its path in the mount namespace of the process. */
  Path path() {
    return path;
  }

  /**
   * Removes the file after the process has exited, or was not started, if no other process has its
   * name. Until then no other controller may: during an exec, a process has no environment.
   */
  void ended() {
    if (held != null) {
      held.close();
    }
    if (state != null) {
      remove(state, path);
    }
  }

  /** Removes the job files in a state directory that no process uses. */
  public static void removeUnused(StateDirectory state) {
    try {
      for (Path file : state.list(DIRECTORY)) {
        Matcher name = NAMES.matcher(String.valueOf(file.getFileName()));
        // Processes of other pid namespaces are not all visible from here.
        if (name.matches() && Long.parseLong(name.group(1)) == ProcessKey.self().namespace()) {
          remove(state, file);
        }
      }
    } catch (IOException e) {
      LOG.warn("job files that no process uses are not removed: {}", e.toString());
    }
  }

  private static void remove(StateDirectory state, Path file) {
    try {
      Optional<NamedLock> lock = hold(state, file, "remove");
      if (lock.isPresent()) {
        try {
          Optional<FileNode> node = FileNode.at(file, LinkOption.NOFOLLOW_LINKS);
          if (ProcFs.processes().stream()
              .noneMatch(pid -> names(pid, file) || isUser(pid, file, node))) {
            state.files().run("remove a job file", () -> Files.deleteIfExists(file));
          }
        } finally {
          lock.get().closeAndForget();
        }
      }
    } catch (IOException | ProcessUnreadableException e) {
      LOG.warn("the job file {} is not removed: {}", file, e.toString());
    }
  }

  /**
   * Locks a file against removal while no process has its name yet.
   *
   * @return empty if another controller has locked it
   */
  private static Optional<NamedLock> hold(StateDirectory state, Path file, String verb)
      throws IOException {
    return state.tryLock(String.valueOf(file.getFileName()), verb);
  }

  /**
   * Locks a file that a restore is about to create again against removal, if it is in the state
   * directory.
   *
   * @param state the state directory of the controller that restores
   * @return empty if no controller would remove it
   * @throws IOException when another controller has locked it
   */
  public static Optional<NamedLock> holdForRestore(StateDirectory state, Path file)
      throws IOException {
    Path directory = state.path().resolve(DIRECTORY);
    boolean isInState =
        file.startsWith(directory)
            || (Files.exists(directory) && file.startsWith(directory.toRealPath()));
    if (!isInState) {
      return Optional.empty();
    }
    Path unused = state.makeDirectory(DIRECTORY);
    Optional<NamedLock> lock =
        state.lock(String.valueOf(file.getFileName()), "restore", state.limit());
    if (lock.isEmpty()) {
      throw new IOException("another controller works on it");
    }
    return lock;
  }

  /**
   * Finds the processes that were started with the name of a file, by their environment. A process
   * that may not open the file, and was not started by its owner, does not count: everyone can put
   * a name into an environment. It only prevents that the file is removed.
   *
   * @param node the file, if it exists
   */
  public static List<Integer> users(Path file, Optional<FileNode> node) {
    return ProcFs.processes().stream().filter(pid -> isUser(pid, file, node)).toList();
  }

  private static boolean isUser(int pid, Path file, Optional<FileNode> node) {
    try {
      Optional<Path> name = named(pid);
      return name.isPresent()
          && (opens(pid, name.get(), node) || (name.get().equals(file) && isOfOwner(pid, node)));
    } catch (ProcessUnreadableException ofAnotherUser) {
      return false; // it could not open the file of this one
    }
  }

  /** By the real user, which a process with the rights of several users keeps. */
  private static boolean isOfOwner(int pid, Optional<FileNode> node) {
    String real = ProcFs.status(pid).getOrDefault("Uid", "").split("\\s+", 2)[0];
    return node.isEmpty() || real.equals(Integer.toUnsignedString(node.get().user()));
  }

  private static boolean names(int pid, Path file) {
    try {
      return named(pid).filter(file::equals).isPresent();
    } catch (ProcessUnreadableException ofAnotherUser) {
      return false; // it could not open the file of this one
    }
  }

  private static boolean opens(int pid, Path name, Optional<FileNode> node) {
    try {
      Optional<OpenedFile> opened = open(pid, name);
      opened.ifPresent(OpenedFile::close);
      return node.isPresent()
          && opened.map(OpenedFile::node).filter(node.get()::isSameFile).isPresent();
    } catch (IOException itMayNot) {
      return false;
    }
  }

  /**
   * Returns the file that the environment of a process names.
   *
   * @return the path in its mount namespace; else empty, or no such process
   * @throws ProcessUnreadableException when that may not be read
   */
  public static Optional<Path> named(int pid) {
    return pid <= 0
        ? Optional.empty()
        : Optional.ofNullable(Environment.of(pid, Set.of(VARIABLE)).get(VARIABLE))
            .filter(name -> !name.isEmpty())
            .map(NativePath::of);
  }

  /**
   * Opens that file for reading and writing with the permissions and in the mount namespace of the
   * process, as the driver in the process does.
   *
   * @return empty if the process names no file, or the file does not exist
   * @throws ProcessUnreadableException when the environment of the process may not be read
   * @throws IOException when the process may not open it, or it is not a regular file
   */
  public static Optional<OpenedFile> open(int pid) throws IOException {
    Optional<Path> name = named(pid);
    return name.isEmpty() ? Optional.empty() : open(pid, name.get());
  }

  private static Optional<OpenedFile> open(int pid, Path name) throws IOException {
    if (name.startsWith(PROC_SELF)) {
      return descriptor(pid, PROC_SELF.relativize(name));
    }
    return name.isAbsolute()
        ? UntrustedPaths.as(
            pid, UntrustedPaths.PATIENCE, paths -> paths.readAndWriteThroughLinks(name))
        : UntrustedPaths.asInWorkingDirectory(
            pid,
            UntrustedPaths.PATIENCE,
            paths -> paths.readAndWriteThroughLinks(ROOT.resolve(name)));
  }

  /** Opens a descriptor of the process, such as that of a memory file. */
  private static Optional<OpenedFile> descriptor(int pid, Path name) throws IOException {
    Matcher number = DESCRIPTOR.matcher(name.toString());
    Optional<ProcStat> thread = ProcFs.livingThread(pid);
    if (!number.matches() || thread.isEmpty()) {
      return Optional.empty();
    }
    int descriptor = Integer.parseInt(number.group(1));
    if ((OpenFile.flags(pid, descriptor).orElse(0) & O_ACCMODE) != Libc.O_RDWR) {
      return Optional.empty();
    }
    return Optional.of(
        OpenedFile.of(
            PROC_SELF.resolve(name), ProcessDescriptor.take(pid, thread.get().pid(), descriptor)));
  }

  /** Returns whether CRIU dumps and restores a file with an isolated process. */
  public static boolean isInMemoryOfIsolated(Path name) {
    return name.startsWith(MEMORY);
  }
}
