package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.IoFunction;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * Opens, creates and removes files at paths that a process named, or that other users can change at
 * any moment:
 *
 * <ul>
 *   <li>with the user and groups of the process, so that the kernel allows only what it would allow
 *       the process;
 *   <li>name by name from a directory that is open, so that a path is never resolved twice.
 *       Symbolic links are followed only if they belong to root or to this user ({@code /var/run}),
 *       and never at the end of a path;
 *   <li>without waiting for a FIFO, a lease or a terminal. A file that was opened is refused unless
 *       it is a regular file;
 *   <li>within a time limit, as the file system may be the process's own and not answer.
 * </ul>
 *
 * <p>For one thread.
 */
public final class UntrustedPaths {

  /** The time limit for a file system where the operation has no limit of its own. */
  public static final Duration PATIENCE = Duration.ofSeconds(10);

  private static final int QUIET = Libc.O_NOFOLLOW | Libc.O_NONBLOCK | Libc.O_NOCTTY;
  private static final int NEW_FILE_MODE = 0600;
  private static final int NEW_DIRECTORY_MODE = 0755;
  private static final Path ROOT = Path.of("/");

  final Path root;
  final @Nullable Credentials as;
  private volatile boolean abandoned;

  private UntrustedPaths(Path root, @Nullable Credentials as) {
    this.root = root;
    this.as = as;
  }

  /** Uses the permissions of this JVM, on the calling thread, without a time limit. */
  public static UntrustedPaths ours() {
    return new UntrustedPaths(ROOT, null);
  }

  /**
   * Works with the permissions of this JVM.
   *
   * @param limit how long to wait
   * @return the result of the work
   * @throws IOException at the end of the time
   */
  public static <T> T ours(Duration limit, IoFunction<UntrustedPaths, T> work) throws IOException {
    return within(limit, ours(), work);
  }

  /**
   * Works with the permissions of another user, in the mount namespace of this JVM.
   *
   * @param owner the credentials of a process
   * @param limit how long to wait
   * @return what the work returns
   * @throws IOException when this JVM may not use the credentials, or when the time is up
   */
  public static <T> T as(Credentials owner, Duration limit, IoFunction<UntrustedPaths, T> work)
      throws IOException {
    return within(limit, new UntrustedPaths(ROOT, needed(owner)), work);
  }

  /**
   * Works with the permissions of a process, below its root directory, in its mount namespace.
   *
   * @param pid a process
   * @param limit how long to wait
   * @return what the work returns
   * @throws NoSuchFileException when the process does not exist
   * @throws IOException when this JVM may not use the credentials, or when the time is up
   */
  public static <T> T as(int pid, Duration limit, IoFunction<UntrustedPaths, T> work)
      throws IOException {
    return as(pid, "root", limit, work);
  }

  /**
   * Works in the same way below the working directory of the process.
   *
   * @throws NoSuchFileException when the process does not exist
   * @throws IOException when this JVM may not use the credentials, or when the time is up
   */
  public static <T> T asInWorkingDirectory(
      int pid, Duration limit, IoFunction<UntrustedPaths, T> work) throws IOException {
    return as(pid, "cwd", limit, work);
  }

  private static <T> T as(int pid, String root, Duration limit, IoFunction<UntrustedPaths, T> work)
      throws IOException {
    Path process = ProcFs.file(pid);
    Credentials owner =
        Credentials.of(pid).orElseThrow(() -> new NoSuchFileException(process.toString()));
    return within(limit, new UntrustedPaths(process.resolve(root), needed(owner)), work);
  }

  /** Returns null if this JVM has the permissions of the user. */
  private static @Nullable Credentials needed(Credentials owner) throws IOException {
    return owner.user() == Credentials.ours().user() ? null : owner;
  }

  /**
   * Works on a thread of its own: credentials belong to a thread, and a hung file system blocks it.
   * A file that the work opened too late for the caller is closed.
   */
  private static <T> T within(
      Duration limit, UntrustedPaths paths, IoFunction<UntrustedPaths, T> work) throws IOException {
    FutureTask<T> task =
        new FutureTask<>(() -> work.apply(paths)) {
          @Override
          protected void set(T result) {
            super.set(result);
            if (isCancelled()) {
              closeUnwanted(result);
            }
          }
        };
    Threads.daemon("gpuprocess files of a job", task).start();
    try {
      return Uninterrupted.<T, Exception>until(
          Deadline.after(limit), left -> awaited(task, left, paths));
    } catch (TimeoutException e) {
      throw new IOException("a file system did not answer within " + Printable.of(limit), e);
    } catch (ExecutionException e) {
      throw rethrown(e.getCause());
    } catch (Exception e) {
      throw new IOException(e);
    }
  }

  /** Returns the result of a task; at the end of the time, abandons it unless it has ended. */
  private static <T> T awaited(FutureTask<T> task, long nanos, UntrustedPaths paths)
      throws Exception {
    try {
      return task.get(nanos, TimeUnit.NANOSECONDS);
    } catch (TimeoutException e) {
      paths.abandoned = true;
      if (task.cancel(false)) {
        throw e;
      }
      return task.get();
    }
  }

  private static void closeUnwanted(@Nullable Object result) {
    Object opened = result instanceof Optional<?> found ? found.orElse(null) : result;
    if (opened instanceof OpenedFile file) {
      file.close();
    }
  }

  private static IOException rethrown(@Nullable Throwable cause) {
    if (cause instanceof Error error) {
      throw error;
    }
    if (cause instanceof RuntimeException unchecked) {
      throw unchecked;
    }
    return cause instanceof IOException known ? known : new IOException(cause);
  }

  /**
   * Opens a regular file for reading.
   *
   * @param path an absolute path
   * @return empty when the file does not exist
   * @throws IOException when it is not a regular file, or the user may not read it
   */
  public Optional<OpenedFile> read(Path path) throws IOException {
    return regular(path, Libc.O_RDONLY);
  }

  /** Opens a regular file for reading and writing, in the same way. */
  public Optional<OpenedFile> readAndWrite(Path path) throws IOException {
    return regular(path, Libc.O_RDWR);
  }

  /** Does the same and follows links of the user, too, also at the end of the path. */
  public Optional<OpenedFile> readAndWriteThroughLinks(Path path) throws IOException {
    try (PathWalk.Place place = new PathWalk(this, path, true).run()) {
      return regular(path, Optional.of(place.open(Libc.O_RDWR | QUIET, 0)));
    } catch (NoSuchFileException nothing) {
      return Optional.empty();
    }
  }

  private Optional<OpenedFile> regular(Path path, int access) throws IOException {
    return regular(path, opened(path, access | QUIET));
  }

  private static Optional<OpenedFile> regular(Path path, Optional<OpenedFile> opened)
      throws IOException {
    if (opened.isPresent() && !opened.get().node().isRegular()) {
      opened.get().close();
      throw refused(path, "is not a regular file");
    }
    return opened;
  }

  /**
   * Opens a file of any type without accessing its content ({@code O_PATH}).
   *
   * @param path an absolute path
   * @return empty when the file does not exist; a symbolic link itself, if it is one
   */
  public Optional<OpenedFile> hold(Path path) throws IOException {
    return opened(path, Libc.O_PATH | Libc.O_NOFOLLOW);
  }

  private Optional<OpenedFile> opened(Path path, int flags) throws IOException {
    try (PathWalk.Place place = place(path)) {
      return Optional.of(place.open(flags, 0));
    } catch (NoSuchFileException nothing) {
      return Optional.empty();
    }
  }

  /**
   * Resolves the path of a directory.
   *
   * @param path an absolute path
   * @return a path to it without links
   * @throws IOException when it is not a directory, or a link of another user leads to it
   */
  public Path real(Path path) throws IOException {
    try (OpenedFile directory = directory(path)) {
      return directory.path();
    }
  }

  /**
   * Opens a directory ({@code O_PATH}).
   *
   * @param path an absolute path; its last name may be a link of root or this user as well
   * @throws IOException when it is not a directory, or a link of another user leads to it
   */
  OpenedFile directory(Path path) throws IOException {
    try (PathWalk.Place place = place(path.resolve("."))) {
      return place.open(Libc.O_PATH | Libc.O_DIRECTORY, 0);
    }
  }

  /**
   * Creates a file that belongs to the user, with mode 0600.
   *
   * @throws IOException also when the file exists
   */
  public OpenedFile create(Path path) throws IOException {
    try (PathWalk.Place place = place(path)) {
      OpenedFile made = place.open(Libc.O_RDWR | Libc.O_CREAT | Libc.O_EXCL | QUIET, NEW_FILE_MODE);
      if (abandoned) {
        made.close();
        place.call(SystemCalls.UNLINKAT, 0, 0, "cannot be removed");
        requireWanted(path);
      }
      return made;
    }
  }

  /**
   * Creates a directory that belongs to the user, with mode 0755.
   *
   * @return false when a file of this name exists
   */
  public boolean makeDirectory(Path path) throws IOException {
    try (PathWalk.Place place = place(path)) {
      long result = place.call(SystemCalls.MKDIRAT, NEW_DIRECTORY_MODE, 0);
      if (result < 0 && result != -Libc.EEXIST) {
        throw Libc.failed(path, "cannot be made", (int) -result);
      }
      return result == 0;
    }
  }

  /**
   * Gives a file one more name in the same directory. A symbolic link is not followed but linked.
   *
   * @throws IOException also when a file of this name exists
   */
  public void link(Path existing, Path link) throws IOException {
    try (PathWalk.Place place = place(existing);
        PathWalk.Place other = place(link)) {
      NativeMemory name = PathWalk.memory(other.name());
      long result;
      try {
        // A call of five arguments, the last of which is zero.
        result = place.call(SystemCalls.LINKAT, other.directory(), name.address());
      } finally {
        Reference.reachabilityFence(name);
      }
      if (result < 0) {
        throw Libc.failed(link, "cannot be linked", (int) -result);
      }
      if (abandoned) {
        other.call(SystemCalls.UNLINKAT, 0, 0, "cannot be removed");
        requireWanted(link);
      }
    }
  }

  /**
   * Removes a file if it exists.
   *
   * @param expected the file to remove; another file of this name stays
   */
  public void remove(Path path, FileNode expected) throws IOException {
    try (PathWalk.Place place = place(path);
        OpenedFile found = place.open(Libc.O_PATH | Libc.O_NOFOLLOW, 0)) {
      if (found.node().isSameFile(expected)) {
        place.call(SystemCalls.UNLINKAT, 0, 0, "cannot be removed");
      }
    } catch (NoSuchFileException gone) {
      return;
    }
  }

  /** Changes the owner and group of a file, if the user of these paths may do that. */
  public void setOwner(OpenedFile file, int user, int group) throws IOException {
    long result =
        ThreadCredentials.call(
            as,
            SystemCalls.FCHOWN,
            file.descriptor(),
            Integer.toUnsignedLong(user),
            Integer.toUnsignedLong(group),
            0);
    if (result < 0) {
      throw Libc.failed(
          file.path(),
          "cannot be given to user %s and group %s"
              .formatted(Integer.toUnsignedString(user), Integer.toUnsignedString(group)),
          (int) -result);
    }
  }

  /**
   * Finds the names of a file in a directory.
   *
   * @param directory an absolute path
   * @return all names of the file there
   */
  public List<String> names(Path directory, FileNode file) throws IOException {
    List<String> found = new ArrayList<>();
    try (OpenedFile held = directory(directory);
        DirectoryStream<Path> entries = Files.newDirectoryStream(held.self())) {
      for (Path entry : entries) {
        requireWanted(directory);
        if (FileNode.at(entry, LinkOption.NOFOLLOW_LINKS).filter(file::isSameFile).isPresent()) {
          found.add(String.valueOf(entry.getFileName()));
        }
      }
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
    return found;
  }

  /** Throws if the thread that waited for this work has stopped waiting. */
  void requireWanted(Path path) {
    if (abandoned) {
      throw new CancellationException("the time for %s was up".formatted(path));
    }
  }

  /** Resolves all but the last name of a path. */
  private PathWalk.Place place(Path path) throws IOException {
    return new PathWalk(this, path, false).run();
  }

  static FileSystemException refused(Path path, String why) {
    return new FileSystemException(path.toString(), null, why);
  }
}
