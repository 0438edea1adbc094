package dev.gpuprocess.internal.state;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.internal.call.BoundedDirectory;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.DirectoryTrust;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.LockedFile;
import dev.gpuprocess.internal.time.Polling;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * The directory that all controllers of one user on this machine share: the journal and the locks.
 * Its content is trusted, so no other user may write to it or replace it. Immutable.
 *
 * <p>No access waits for its file system for longer than the limit. After that, every access fails
 * at once until the file system has answered.
 *
 * @param path its path; created when needed
 * @param limit how long its file system may take to answer
 */
public record StateDirectory(Path path, Duration limit) {

  private static final String LOCKS = "locks.d";
  private static final int NEEDED = 1 << 16;
  private static final String NAMELESS = "?"; // the value of the JDK

  /**
   * Not the timeout of driver calls, which may be short: a busy machine is not a hung disk, and a
   * controller that does not see the locks and reservations of others endangers their processes.
   */
  private static final Duration LIMIT = Duration.ofSeconds(10);

  /** Creates one with the usual limit. */
  public StateDirectory(Path path) {
    this(path, LIMIT);
  }

  /** Returns the accesses to it, which have its limit. */
  public BoundedDirectory files() {
    return new BoundedDirectory(path, limit);
  }

  /**
   * Returns the directory that every controller of this user uses by default: the value of the
   * system property {@code gpuprocess.state.dir} or the environment variable {@code
   * GPUPROCESS_STATE_DIR}, or a directory below {@code /run}, the user's runtime directory or the
   * temporary files.
   */
  public static StateDirectory standard() {
    String named =
        System.getProperty("gpuprocess.state.dir", System.getenv("GPUPROCESS_STATE_DIR"));
    if (named != null && !named.isBlank()) {
      return new StateDirectory(Path.of(named).toAbsolutePath());
    }
    Path run = Path.of("/run");
    if (Files.isWritable(run)) {
      return new StateDirectory(run.resolve("gpuprocess"));
    }
    String runtime = System.getenv("XDG_RUNTIME_DIR");
    Path own =
        runtime == null || runtime.isBlank()
            ? run.resolve("user").resolve(uid())
            : Path.of(runtime).toAbsolutePath();
    return new StateDirectory(
        DirectoryTrust.isOurs(own)
            ? own.resolve("gpuprocess")
            : Path.of(System.getProperty("java.io.tmpdir"), "gpuprocess-" + user()));
  }

  /**
   * Returns the name of the user of this JVM, and so of all JVMs that use the directory; the uid
   * for a user without a name, as in a container that runs with an arbitrary uid.
   */
  public static String user() {
    String name = System.getProperty("user.name");
    return name.equals(NAMELESS) ? uid() : name;
  }

  private static String uid() {
    try {
      return Integer.toUnsignedString(CurrentUser.get().realUid());
    } catch (IOException unknown) {
      return NAMELESS;
    }
  }

  /**
   * Returns whether it exists.
   *
   * @throws IOException when it exists but must not be used
   */
  public boolean exists() throws IOException {
    return files().get("look", this::isThere);
  }

  private boolean isThere() throws IOException {
    try {
      DirectoryTrust.require(path);
      return true;
    } catch (NoSuchFileException notYet) {
      return false;
    }
  }

  /**
   * Creates it if it does not exist.
   *
   * @throws IOException when it cannot be created, or must not be used
   */
  public void make() throws IOException {
    files().run("make", () -> make(path));
  }

  /**
   * Creates a directory in it, and itself, if they do not exist.
   *
   * @return its path
   * @throws IOException as {@link #make()}
   */
  public Path makeDirectory(String name) throws IOException {
    Path directory = path.resolve(name);
    files()
        .run(
            "make " + name,
            () -> {
              make(path);
              make(directory);
            });
    return directory;
  }

  /** Lists a directory in it; empty if that does not exist. */
  public List<Path> list(String name) throws IOException {
    Path directory = path.resolve(name);
    return files()
        .get(
            "list " + name,
            () ->
                isThere() ? names(directory).stream().map(directory::resolve).toList() : List.of());
  }

  private static void make(Path directory) throws IOException {
    if (Files.notExists(directory, LinkOption.NOFOLLOW_LINKS)) {
      try {
        // The directories above it may be links.
        if (directory.getParent() != null && Files.notExists(directory.getParent())) {
          make(directory.getParent());
        }
        Files.createDirectory(
            directory,
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
      } catch (FileAlreadyExistsException made) {
        // Created by another controller, or by another user, which is checked next.
      }
    }
    DirectoryTrust.require(directory);
  }

  /**
   * Takes a lock, which one controller at a time can hold, across all JVMs and class loaders of
   * this machine. The kernel releases it when this JVM dies.
   *
   * @param name letters, digits, dots, hyphens and underscores
   * @param verb the verb that needs it, for the messages of other controllers
   * @return empty if it is held, in this JVM or another; see {@link #holder}
   * @throws IOException when the directory cannot or must not be used
   */
  public Optional<NamedLock> tryLock(String name, String verb) throws IOException {
    return tryLock(name, LockHolder.self(verb));
  }

  /** Takes a lock for a verb that may have begun earlier. */
  Optional<NamedLock> tryLock(String name, LockHolder holder) throws IOException {
    Path file = file(name);
    return files()
        .get(
            "lock " + name,
            () -> {
              make(path);
              make(locks());
              Optional<LockedFile> locked = LockedFile.tryLock(file);
              return locked.isEmpty()
                  ? Optional.empty()
                  : Optional.of(NamedLock.of(files(), locked.get(), holder));
            },
            late -> late.ifPresent(NamedLock::close));
  }

  /**
   * Waits for a lock and takes it. An interrupt does not shorten the wait; the thread's flag stays
   * set.
   *
   * @param patience how long to wait
   * @return empty if it is still held
   */
  public Optional<NamedLock> lock(String name, String verb, Duration patience) throws IOException {
    try (Polling waiting = new Polling(patience)) {
      while (true) {
        Optional<NamedLock> lock = tryLock(name, verb);
        if (lock.isPresent() || !waiting.pause()) {
          return lock;
        }
      }
    }
  }

  /**
   * Returns the holder of a lock, without taking it.
   *
   * @return empty if it is not held, or the directory does not exist
   */
  public Optional<LockHolder> holder(String name) throws IOException {
    Path file = file(name);
    return files()
        .get(
            "read " + name,
            () ->
                isThere() && LockedFile.isLocked(file) ? content(file).holder() : Optional.empty());
  }

  /** Describes the holder of a lock; {@code another controller} if it cannot be read. */
  public String describeHolder(String name) {
    String unknown = "another controller";
    try {
      return holder(name).map(LockHolder::toString).orElse(unknown);
    } catch (IOException e) {
      return unknown;
    }
  }

  /** Returns the note of the last holder of a lock; else empty. */
  public String note(String name) throws IOException {
    Path file = file(name);
    return files().get("read " + name, () -> isThere() ? content(file).note() : "");
  }

  private static NamedLock.Content content(Path file) throws IOException {
    return NamedLock.Content.parse(LockedFile.read(file).orElse(""));
  }

  /** Returns the names of all locks that have a file, held or not. */
  public List<String> lockNames() throws IOException {
    return files().get("list the locks", () -> isThere() ? names(locks()) : List.of());
  }

  private static List<String> names(Path directory) throws IOException {
    try {
      return DurableFiles.list(directory).stream()
          .map(file -> String.valueOf(file.getFileName()))
          .toList();
    } catch (NoSuchFileException notYet) {
      return List.of();
    }
  }

  private Path file(String name) {
    if (!name.matches("[\\w-][\\w.-]*")) {
      throw new IllegalArgumentException("not the name of a lock: " + name);
    }
    return locks().resolve(name);
  }

  private Path locks() {
    return path.resolve(LOCKS);
  }

  /**
   * Checks whether verbs can use it; changes nothing.
   *
   * @return the obstacle; else empty
   */
  public Optional<String> obstacle() {
    try {
      return files().get("look", this::findObstacle);
    } catch (IOException e) {
      return Optional.of(path + " cannot be used: " + explain(e));
    }
  }

  private Optional<String> findObstacle() throws IOException {
    Path there = isThere() ? path : DirectoryTrust.requirePlaceFor(path);
    FileSystemStatus free = FileSystemStatus.of(there);
    if (!Files.isWritable(there)) {
      return Optional.of(there + " cannot be written");
    }
    if (free.files() == 0) {
      return Optional.of("the file system of " + there + " has no inodes left");
    }
    return free.room() < NEEDED
        ? Optional.of("the file system of " + there + " is full")
        : Optional.empty();
  }

  /** Creates the exception for a verb that needs the directory. */
  public StateDirectoryException unusable(IOException why, String verb, long pid) {
    return new StateDirectoryException(
        "the state directory %s cannot be used (%s): fix that, or name another directory in GPUPROCESS_STATE_DIR; process %s was not touched"
            .formatted(path, explain(why), Long.toString(pid)),
        Failure.of(verb, pid),
        why);
  }

  /** Describes an error for an operator. */
  public String explain(IOException why) {
    if (why instanceof FileSystemException failed && failed.getReason() != null) {
      // Those of the C library are capitalized, and no continuation of a sentence.
      String subject = Character.isLowerCase(failed.getReason().codePointAt(0)) ? "it " : "";
      return path.toString().equals(failed.getFile())
          ? subject + failed.getReason()
          : failed.getFile() + ": " + failed.getReason();
    }
    return why.toString();
  }
}
