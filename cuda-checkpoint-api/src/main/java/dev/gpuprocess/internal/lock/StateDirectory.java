package dev.gpuprocess.internal.lock;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.StateDirectoryException;
import dev.gpuprocess.internal.call.BoundedDirectory;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.DirectoryTrust;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.LockedFile;
import dev.gpuprocess.internal.time.Polling;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The directory that all controllers of one user on this machine share: the journal and the locks.
 * Its content is trusted, so no other user may write to it or replace it. Immutable.
 *
 * <p>Nothing waits for its file system for longer than the limit. After that it counts as one that
 * cannot be used, at once for all who come then, until the file system has answered.
 *
 * @param path where it is; created when needed
 * @param limit how long its file system may take to answer
 */
public record StateDirectory(Path path, Duration limit) {

  private static final String LOCKS = "locks.d";
  private static final int NEEDED = 1 << 16;
  private static final String NAMELESS = "?"; // so says the JDK

  /**
   * Not the timeout of driver calls, which may be short: a busy machine is no hung disk, and who
   * does not see what others have locked and reserved endangers their processes.
   */
  private static final Duration LIMIT = Duration.ofSeconds(10);

  /** With the usual limit. */
  public StateDirectory(Path path) {
    this(path, LIMIT);
  }

  /** For accesses to it. */
  public BoundedDirectory files() {
    return new BoundedDirectory(path, limit);
  }

  /**
   * The directory that every controller of this user uses by default: that of the system property
   * {@code gpuprocess.state.dir} or the environment variable {@code GPUPROCESS_STATE_DIR}, or else
   * one below {@code /run}, the user's runtime directory or the temporary files.
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
   * The user of this JVM, and so of all that use the same directory, by name. A user may have no
   * name, as in a container that runs with an arbitrary uid.
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
   * Tells whether it exists.
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
   * Creates a directory in it, and itself, where they do not exist.
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

  /** What is in a directory in it; nothing when that does not exist. */
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
        // By another controller just now, or by another user, which is checked next.
      }
    }
    DirectoryTrust.require(directory);
  }

  /**
   * Takes a lock, which one controller at a time can hold, across all JVMs and class loaders of
   * this machine. The kernel releases it when this JVM dies.
   *
   * @param name letters, digits, dots, hyphens and underscores
   * @param verb what it is locked for, for the messages of others
   * @return empty when somebody holds it, in this JVM or another; see {@link #holder}
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
   * Takes a lock, waiting for it. An interrupt does not shorten the wait; the thread's flag stays
   * set.
   *
   * @param patience how long to wait
   * @return empty when somebody still holds it
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
   * Finds out who holds a lock, without taking it.
   *
   * @return empty when nobody does, or when the directory does not exist
   */
  public Optional<LockHolder> holder(String name) throws IOException {
    Path file = file(name);
    return files()
        .get(
            "read " + name,
            () ->
                isThere() && LockedFile.isLocked(file) ? record(file).holder() : Optional.empty());
  }

  /** Who holds a lock, in words; {@code another controller} when that cannot be found out. */
  public String describeHolder(String name) {
    String unknown = "another controller";
    try {
      return holder(name).map(LockHolder::toString).orElse(unknown);
    } catch (IOException e) {
      return unknown;
    }
  }

  /** What the last holder of a lock noted; empty when nothing was noted. */
  public String note(String name) throws IOException {
    Path file = file(name);
    return files().get("read " + name, () -> isThere() ? record(file).note() : "");
  }

  private static LockRecord record(Path file) throws IOException {
    return LockRecord.parse(LockedFile.read(file).orElse(""));
  }

  /** The names of all locks that have a file, held or not. */
  public List<String> lockNames() throws IOException {
    return files().get("list the locks", () -> isThere() ? names(locks()) : List.of());
  }

  private static List<String> names(Path directory) throws IOException {
    List<String> names = new ArrayList<>();
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory)) {
      files.forEach(file -> names.add(String.valueOf(file.getFileName())));
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    } catch (NoSuchFileException notYet) {
      return names;
    }
    return names;
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
   * @return what is wrong; empty when nothing is
   */
  public Optional<String> trouble() {
    try {
      return files().get("look", this::troubleInTime);
    } catch (IOException e) {
      return Optional.of(path + " cannot be used: " + explain(e));
    }
  }

  private Optional<String> troubleInTime() throws IOException {
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

  /** The exception for a verb that cannot do without the directory. */
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
      return path.toString().equals(failed.getFile())
          ? "it " + failed.getReason()
          : failed.getFile() + ": " + failed.getReason();
    }
    return why.toString();
  }
}
