package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * Files at paths that a process named, or that other users can change at any moment. Everything
 * that is opened, created or removed on behalf of a process goes through this class:
 *
 * <ul>
 *   <li>with the user and groups of the process, so the kernel allows what it would allow the
 *       process, and nothing that only root may do;
 *   <li>name by name from a directory that is open, so that a path is never resolved twice.
 *       Symbolic links are followed only if they are root's or ours ({@code /var/run}), and never
 *       at the end of a path;
 *   <li>without waiting for a FIFO, a lease or a terminal. A file that was opened is refused unless
 *       it is a regular file;
 *   <li>within a time limit, as the file system may be the process's own and not answer.
 * </ul>
 *
 * <p>For one thread.
 */
public final class UntrustedPaths {

  /** How long to wait for a file system where no operation has a limit of its own. */
  public static final Duration PATIENCE = Duration.ofSeconds(10);

  private static final int QUIET = Libc.O_NOFOLLOW | Libc.O_NONBLOCK | Libc.O_NOCTTY;
  private static final int NEW_FILE_MODE = 0600;
  private static final int NEW_DIRECTORY_MODE = 0755;
  private static final int MOST_LINKS = 40;
  private static final int MOST_STEPS = 10_000;
  private static final int LONGEST_LINK = 4096;
  private static final Path ROOT = Path.of("/");

  private final Path root;
  private final @Nullable Credentials as;
  private volatile boolean abandoned;

  private UntrustedPaths(Path root, @Nullable Credentials as) {
    this.root = root;
    this.as = as;
  }

  /** Work on such files. */
  public interface Work<T> {
    /**
     * Does the work.
     *
     * @param paths for the thread that calls this
     */
    T run(UntrustedPaths paths) throws IOException;
  }

  /** Such files with the permissions of this JVM, on the calling thread, without a time limit. */
  public static UntrustedPaths ours() {
    return new UntrustedPaths(ROOT, null);
  }

  /**
   * Works with the permissions of this JVM.
   *
   * @param limit how long to wait
   * @return what the work returns
   * @throws IOException when the time is up
   */
  public static <T> T ours(Duration limit, Work<T> work) throws IOException {
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
  public static <T> T as(Credentials owner, Duration limit, Work<T> work) throws IOException {
    return within(limit, new UntrustedPaths(ROOT, needed(owner)), work);
  }

  /**
   * Works with the permissions of a process, below its root directory, in its mount namespace.
   *
   * @param pid a process
   * @param limit how long to wait
   * @return what the work returns
   * @throws NoSuchFileException when there is no such process
   * @throws IOException when this JVM may not use the credentials, or when the time is up
   */
  public static <T> T as(int pid, Duration limit, Work<T> work) throws IOException {
    return as(pid, "root", limit, work);
  }

  /**
   * The same below the working directory of the process: every path begins there.
   *
   * @throws NoSuchFileException when there is no such process
   * @throws IOException when this JVM may not use the credentials, or when the time is up
   */
  public static <T> T asInWorkingDirectory(int pid, Duration limit, Work<T> work)
      throws IOException {
    return as(pid, "cwd", limit, work);
  }

  private static <T> T as(int pid, String root, Duration limit, Work<T> work) throws IOException {
    Path process = ProcFs.file(pid);
    Credentials owner =
        Credentials.of(pid).orElseThrow(() -> new NoSuchFileException(process.toString()));
    return within(limit, new UntrustedPaths(process.resolve(root), needed(owner)), work);
  }

  /** Null where the permissions of this JVM are those of the user. */
  private static @Nullable Credentials needed(Credentials owner) throws IOException {
    return owner.user() == Credentials.ours().user() ? null : owner;
  }

  /** Credentials belong to a thread, and a file system that hangs keeps the thread. */
  private static <T> T within(Duration limit, UntrustedPaths paths, Work<T> work)
      throws IOException {
    FutureTask<T> task = new FutureTask<>(() -> work.run(paths));
    Thread thread = new Thread(task, "gpuprocess files of a job");
    thread.setDaemon(true);
    thread.start();
    try {
      return Uninterrupted.<T, Exception>until(
          Durations.end(limit), left -> task.get(left, TimeUnit.NANOSECONDS));
    } catch (TimeoutException e) {
      paths.abandoned = true;
      throw new IOException("a file system did not answer within " + limit, e);
    } catch (ExecutionException e) {
      throw rethrown(e.getCause());
    } catch (Exception e) {
      throw new IOException(e);
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
   * @return empty when there is nothing
   * @throws IOException when it is something else, or the user may not read it
   */
  public Optional<OpenedFile> read(Path path) throws IOException {
    return regular(path, Libc.O_RDONLY);
  }

  /** The same for reading and writing. */
  public Optional<OpenedFile> readAndWrite(Path path) throws IOException {
    return regular(path, Libc.O_RDWR);
  }

  /** The same, and follows links of the user, too, also at the end of the path. */
  public Optional<OpenedFile> readAndWriteThroughLinks(Path path) throws IOException {
    try (Place place = new Walk(path, true).run()) {
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
   * Opens whatever is there without doing anything to it ({@code O_PATH}).
   *
   * @param path an absolute path
   * @return empty when there is nothing; a symbolic link itself, if it is one
   */
  public Optional<OpenedFile> hold(Path path) throws IOException {
    return opened(path, Libc.O_PATH | Libc.O_NOFOLLOW);
  }

  private Optional<OpenedFile> opened(Path path, int flags) throws IOException {
    try (Place place = place(path)) {
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
   * @throws IOException when it is something else, or a link of another user leads to it
   */
  public Path real(Path path) throws IOException {
    try (OpenedFile directory = directory(path)) {
      return directory.path();
    }
  }

  /**
   * Opens a directory ({@code O_PATH}).
   *
   * @param path an absolute path; also its last name may be a link that is root's or ours
   * @throws IOException when it is something else, or a link of another user leads to it
   */
  OpenedFile directory(Path path) throws IOException {
    try (Place place = place(path.resolve("."))) {
      return place.open(Libc.O_PATH | Libc.O_DIRECTORY, 0);
    }
  }

  /**
   * Creates a file that belongs to the user, with mode 0600.
   *
   * @throws IOException also when there is something
   */
  public OpenedFile create(Path path) throws IOException {
    try (Place place = place(path)) {
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
   * @return false when there is something
   */
  public boolean makeDirectory(Path path) throws IOException {
    try (Place place = place(path)) {
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
   * @throws IOException also when there is something of this name
   */
  public void link(Path existing, Path link) throws IOException {
    try (Place place = place(existing);
        Place other = place(link)) {
      NativeMemory name = memory(other.name);
      long result;
      try {
        // A call of five arguments, the last of which is zero.
        result = place.call(SystemCalls.LINKAT, other.directory, name.address());
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
   * Removes a file if it is there.
   *
   * @param expected the file that is to be removed; another one stays
   */
  public void remove(Path path, FileNode expected) throws IOException {
    try (Place place = place(path);
        OpenedFile found = place.open(Libc.O_PATH | Libc.O_NOFOLLOW, 0)) {
      if (found.node().isSameFile(expected)) {
        place.call(SystemCalls.UNLINKAT, 0, 0, "cannot be removed");
      }
    } catch (NoSuchFileException gone) {
      return;
    }
  }

  /** Gives a file to a user and a group, if the user of these paths may do that. */
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

  private void requireWanted(Path path) {
    if (abandoned) {
      throw new CancellationException("the time for %s was up".formatted(path));
    }
  }

  /** Resolves all but the last name of a path. */
  private Place place(Path path) throws IOException {
    return new Walk(path, false).run();
  }

  private static FileSystemException refused(Path path, String why) {
    return new FileSystemException(path.toString(), null, why);
  }

  private static NativeMemory memory(String name) {
    byte[] bytes = name.getBytes(StandardCharsets.ISO_8859_1);
    NativeMemory memory = NativeMemory.of(bytes.length + 1);
    memory.write(0, bytes);
    return memory;
  }

  private static long call(
      @Nullable Credentials as,
      long number,
      long directory,
      NativeMemory name,
      long third,
      long fourth)
      throws IOException {
    try {
      return ThreadCredentials.call(as, number, directory, name.address(), third, fourth);
    } finally {
      Reference.reachabilityFence(name);
    }
  }

  private int openAt(long directory, String name, int flags, int mode, Path shown)
      throws IOException {
    requireWanted(shown);
    long result =
        call(as, SystemCalls.OPENAT, directory, memory(name), flags | Libc.O_CLOEXEC, mode);
    if (result < 0) {
      throw Libc.failed(shown, "cannot be opened", (int) -result);
    }
    return (int) result;
  }

  /** A name in a directory that is open. */
  private final class Place implements AutoCloseable {

    private final int directory;
    private final String name;
    private final Path path;

    Place(int directory, String name, Path path) {
      this.directory = directory;
      this.name = name;
      this.path = path;
    }

    OpenedFile open(int flags, int mode) throws IOException {
      int descriptor = openAt(directory, name, flags, mode, path);
      try {
        return new OpenedFile(path, descriptor, FileNode.of(descriptor));
      } catch (IOException | RuntimeException | Error e) {
        Descriptors.close(descriptor);
        throw e;
      }
    }

    long call(long number, long third, long fourth) throws IOException {
      return UntrustedPaths.call(as, number, directory, memory(name), third, fourth);
    }

    void call(long number, long third, long fourth, String failed) throws IOException {
      long result = call(number, third, fourth);
      if (result < 0) {
        throw Libc.failed(path, failed, (int) -result);
      }
    }

    @Override
    public void close() {
      Descriptors.close(directory);
    }
  }

  /** The way to a file, name by name. Names are bytes, one in each character. */
  private final class Walk {

    private final Path path;
    private final boolean throughLinks;
    private final Deque<String> left = new ArrayDeque<>();
    private final List<String> done = new ArrayList<>();
    private int directory;
    private int links;

    Walk(Path path, boolean throughLinks) throws IOException {
      if (!path.isAbsolute()) {
        throw refused(path, "is not an absolute path");
      }
      this.path = path;
      this.throughLinks = throughLinks;
      addFirst(bytes(NativePath.bytes(path)));
    }

    private static String bytes(byte[] name) {
      return new String(name, StandardCharsets.ISO_8859_1);
    }

    private void addFirst(String text) {
      List<String> names = Arrays.asList(text.split("/"));
      for (int i = names.size() - 1; i >= 0; i--) {
        boolean isLast = i == names.size() - 1 && left.isEmpty();
        if (!names.get(i).isEmpty() && (isLast || !names.get(i).equals("."))) {
          left.addFirst(names.get(i));
        }
      }
    }

    Place run() throws IOException {
      if (left.isEmpty()) {
        left.add(".");
      }
      directory = openRoot();
      boolean arrived = false;
      try {
        for (int steps = 0; steps < MOST_STEPS; steps++) {
          String name = left.removeFirst();
          if (name.equals("..")) {
            up();
          } else if (!left.isEmpty()) {
            enter(name);
          } else if (!throughLinks || !isFollowed(name)) {
            arrived = true;
            return new Place(directory, name, real(name));
          }
        }
        throw refused(path, "is too long");
      } finally {
        if (!arrived) {
          Descriptors.close(directory);
        }
      }
    }

    private int openRoot() throws FileSystemException {
      return Libc.open(root, Libc.O_PATH | Libc.O_DIRECTORY);
    }

    /** Follows a link at the end of the path, if it is one. */
    private boolean isFollowed(String name) throws IOException {
      int last = openAt(directory, name, Libc.O_PATH | Libc.O_NOFOLLOW, 0, real(name));
      try {
        FileNode node = FileNode.of(last);
        if (node.isLink()) {
          follow(name, node, last);
        }
        return node.isLink();
      } finally {
        Descriptors.close(last);
      }
    }

    private void enter(String name) throws IOException {
      int next = openAt(directory, name, Libc.O_PATH | Libc.O_NOFOLLOW, 0, real(name));
      boolean entered = false;
      try {
        FileNode node = FileNode.of(next);
        if (node.isLink()) {
          follow(name, node, next);
        } else {
          entered = true;
          Descriptors.close(directory);
          directory = next;
          done.add(name);
        }
      } finally {
        if (!entered) {
          Descriptors.close(next);
        }
      }
    }

    private void follow(String name, FileNode link, int descriptor) throws IOException {
      if (!isTrusted(link)) {
        throw refused(
            real(name),
            "is a symbolic link of user %s, which is not followed: name what it leads to"
                .formatted(Integer.toUnsignedString(link.user())));
      }
      if (++links > MOST_LINKS) {
        throw refused(path, "has too many symbolic links");
      }
      String target = target(descriptor, real(name));
      if (target.startsWith("/")) {
        done.clear();
        restart();
      }
      addFirst(target);
    }

    private boolean isTrusted(FileNode link) throws IOException {
      return link.user() == 0
          || link.user() == CurrentUser.get().effectiveUid()
          || (throughLinks && as != null && link.user() == as.user());
    }

    private static String target(int descriptor, Path shown) throws IOException {
      NativeMemory text = NativeMemory.of(LONGEST_LINK);
      long length =
          call(null, SystemCalls.READLINKAT, descriptor, memory(""), text.address(), text.bytes());
      if (length < 0) {
        throw Libc.failed(shown, "cannot be read", (int) -length);
      }
      return bytes(text.read(0, (int) length));
    }

    /** The directory above one without links is named by all names but the last. */
    private void up() throws IOException {
      if (left.isEmpty()) {
        throw refused(path, "ends with ..");
      }
      if (!done.isEmpty()) {
        done.remove(done.size() - 1);
      }
      for (int i = done.size() - 1; i >= 0; i--) {
        left.addFirst(done.get(i));
      }
      done.clear();
      restart();
    }

    private void restart() throws IOException {
      int again = openRoot();
      Descriptors.close(directory);
      directory = again;
    }

    private Path real(String name) {
      List<String> names = new ArrayList<>(done);
      if (!name.equals(".")) {
        names.add(name);
      }
      String all = "/" + String.join("/", names);
      return NativePath.of(all.getBytes(StandardCharsets.ISO_8859_1));
    }
  }
}
