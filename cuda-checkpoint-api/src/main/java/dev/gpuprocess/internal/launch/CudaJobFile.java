package dev.gpuprocess.internal.launch;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.ProcessDescriptor;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.lock.NamedLock;
import dev.gpuprocess.internal.lock.StateDirectory;
import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.ProcessKey;
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
 * The file in which driver 590 and later keeps what it must know of a job of several processes.
 * {@code CUDA_CHECKPOINT_JOB_FILE} names it in the environment of each of them, and must name it to
 * the controller's calls, too. Its content is the driver's affair, which changes it with each
 * checkpoint.
 *
 * <p>One that is made here for a launched job is empty, and is the job's as long as a process lives
 * that was started with its name. It is in the state directory; that of an isolated job in the
 * {@code /dev/shm} that the job and each of its copies has for itself, where CRIU carries it and
 * nothing is left of it.
 *
 * <p>Tried on the simulated driver only.
 */
public final class CudaJobFile {

  /** Names the file. */
  public static final String VARIABLE = "CUDA_CHECKPOINT_JOB_FILE";

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** CUDA 13.1, which came with driver 590. */
  private static final int FIRST_VERSION = 13010;

  /** An isolated job has its own there, and so has each of its copies. */
  private static final Path MEMORY = Path.of("/dev/shm");

  private static final Path PROC_SELF = Path.of("/proc/self");
  private static final Path ROOT = Path.of("/");

  private static final Pattern DESCRIPTOR = Pattern.compile("fd/(\\d{1,9})");
  private static final String FLAGS = "flags:"; // octal
  private static final int O_ACCMODE = 3;
  private static final int O_RDWR = 2;

  private static final String DIRECTORY = "jobs.d";
  private static final String NAME = "cuda-job-%s-%s";
  private static final Pattern NAMES = Pattern.compile("cuda-job-(\\d{1,18})-[0-9a-f]{16}");
  private static final int RANDOM_BYTES = 8;

  private final Path path;

  /** Where it is; null when it is in an isolated job. */
  private final @Nullable StateDirectory state;

  /** Until the job has begun: nobody takes the file for one that is left over. */
  private final @Nullable NamedLock held;

  private CudaJobFile(Path path, @Nullable StateDirectory state, @Nullable NamedLock held) {
    this.path = path;
    this.state = state;
    this.held = held;
  }

  /**
   * Whether a driver keeps job files.
   *
   * @param cudaVersion as {@link CudaDriver#version} gives it
   */
  public static boolean isKnownTo(int cudaVersion) {
    return cudaVersion >= FIRST_VERSION;
  }

  /** Whether the driver is there, and keeps job files. */
  private static boolean isKnownTo(CudaDriver cuda) {
    try {
      return isKnownTo(cuda.version());
    } catch (MachineUnfitException | IllegalStateException e) {
      LOG.debug("a job is launched without a job file", e);
      return false;
    }
  }

  /**
   * Chooses the name of one for a job that is about to be launched. It is made by the job's
   * starter.
   *
   * @return empty when the driver keeps none, when the job's environment names one already, and
   *     when the variable is to be removed from it
   * @throws IOException when there is no place for it
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

  /** Its path, as the job sees it. */
  Path path() {
    return path;
  }

  /**
   * The job has ended, or did not begin. Removes the file if no other process has its name. Until
   * then nobody else may: a process that is being executed shows no environment for a moment.
   */
  void ended() {
    if (held != null) {
      held.close();
    }
    if (state != null) {
      remove(state, path);
    }
  }

  /** Removes those in a state directory whose jobs have ended. */
  public static void removeUnused(StateDirectory state) {
    try {
      for (Path file : state.list(DIRECTORY)) {
        Matcher name = NAMES.matcher(String.valueOf(file.getFileName()));
        // Processes of other pid namespaces are not all seen from here.
        if (name.matches() && Long.parseLong(name.group(1)) == ProcessKey.self().namespace()) {
          remove(state, file);
        }
      }
    } catch (IOException e) {
      LOG.warn("job files of jobs that have ended stay: {}", e.toString());
    }
  }

  private static void remove(StateDirectory state, Path file) {
    try {
      Optional<NamedLock> lock = hold(state, file, "remove");
      if (lock.isPresent()) {
        try {
          if (users(file, FileNode.at(file, LinkOption.NOFOLLOW_LINKS)).isEmpty()) {
            state.files().run("remove a job file", () -> Files.deleteIfExists(file));
          }
        } finally {
          lock.get().closeAndForget();
        }
      }
    } catch (IOException | ProcessUnreadableException e) {
      LOG.warn("the job file {} stays: {}", file, e.toString());
    }
  }

  /**
   * Keeps a file from being removed although no process has its name yet.
   *
   * @return empty when somebody else does that
   */
  private static Optional<NamedLock> hold(StateDirectory state, Path file, String verb)
      throws IOException {
    return state.tryLock(String.valueOf(file.getFileName()), verb);
  }

  /**
   * Keeps a file that is about to be put back for a restore from being removed, if it is one that
   * was made here.
   *
   * @param state that of the controller who restores
   * @return empty when nobody would remove it
   * @throws IOException when another controller works on it
   */
  public static Optional<NamedLock> holdForRestore(StateDirectory state, Path file)
      throws IOException {
    Path directory = state.path().resolve(DIRECTORY);
    boolean isOurs =
        file.startsWith(directory)
            || (Files.exists(directory) && file.startsWith(directory.toRealPath()));
    if (!isOurs) {
      return Optional.empty();
    }
    Path unused = state.makeDirectory(DIRECTORY);
    Optional<NamedLock> lock =
        state.lock(String.valueOf(file.getFileName()), "restore", state.limit());
    if (lock.isEmpty()) {
      throw new IOException("another controller is at work on it");
    }
    return lock;
  }

  /**
   * Finds the processes that were started with the name of a file, by their environment.
   *
   * @param node the file, if it exists
   */
  public static List<Integer> users(Path file, Optional<FileNode> node) {
    return ProcFs.processes().stream().filter(pid -> isUser(pid, file, node)).toList();
  }

  private static boolean isUser(int pid, Path file, Optional<FileNode> node) {
    try {
      Optional<Path> name = named(pid);
      return name.isPresent() && (name.get().equals(file) || opens(pid, name.get(), node));
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
   * The file that the environment of a process names.
   *
   * @return the path as the process sees it; empty when there is none, or no such process
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
   * Opens that file for reading and writing with the permissions of the process, whatever mounts
   * the process sees. The driver in the process opened it in the same way.
   *
   * @return empty when the process names no file, or the file does not exist
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

  /** A descriptor of the process, such as that of a memory file, which was opened by it. */
  private static Optional<OpenedFile> descriptor(int pid, Path name) throws IOException {
    Matcher number = DESCRIPTOR.matcher(name.toString());
    Optional<ProcStat> thread = ProcFs.livingThread(pid);
    if (!number.matches() || thread.isEmpty() || !isWritable(pid, name)) {
      return Optional.empty();
    }
    int descriptor = Integer.parseInt(number.group(1));
    return Optional.of(
        OpenedFile.of(
            PROC_SELF.resolve(name), ProcessDescriptor.take(pid, thread.get().pid(), descriptor)));
  }

  private static boolean isWritable(int pid, Path name) {
    return ProcFs.read(pid, "fdinfo/" + name.getFileName()).stream()
        .flatMap(String::lines)
        .filter(line -> line.startsWith(FLAGS))
        .anyMatch(
            line ->
                (Integer.parseInt(line.substring(FLAGS.length()).strip(), 8) & O_ACCMODE)
                    == O_RDWR);
  }

  /** Whether CRIU dumps and restores a file with an isolated job. */
  public static boolean isInMemoryOfIsolated(Path name) {
    return name.startsWith(MEMORY);
  }
}
