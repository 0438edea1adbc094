package dev.gpuprocess.internal.lock;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.StateDirectoryException;
import dev.gpuprocess.internal.os.DirectoryTrust;
import dev.gpuprocess.internal.os.CurrentUser;
import dev.gpuprocess.internal.os.FileSystemRoom;
import dev.gpuprocess.internal.os.LockedFile;
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
 * Where the controllers of this machine that run as one user meet: the journal and the locks. What
 * stands there is believed and acted upon, so nobody else may write there, or put another directory
 * in its place.
 *
 * @param path where it is; made when needed
 */
public record StateDirectory(Path path) {

  private static final String LOCKS = "locks.d";
  private static final int NEEDED = 1 << 16;
  private static final String NAMELESS = "?"; // so says the JDK

  /** Where every controller on this machine that runs as this user keeps its state. */
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

  /** Not every user has a name, as in a container that is given any number. */
  private static String user() {
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
   * Tells whether it is there.
   *
   * @throws IOException when it is, and must not be used
   */
  public boolean exists() throws IOException {
    try {
      DirectoryTrust.require(path);
      return true;
    } catch (NoSuchFileException notYet) {
      return false;
    }
  }

  /**
   * Makes it if it is not there.
   *
   * @throws IOException when it cannot be made, or must not be used
   */
  public void make() throws IOException {
    make(path);
  }

  private static void make(Path directory) throws IOException {
    if (Files.notExists(directory, LinkOption.NOFOLLOW_LINKS)) {
      try {
        // Above it there may be links.
        if (directory.getParent() != null && Files.notExists(directory.getParent())) {
          make(directory.getParent());
        }
        Files.createDirectory(
            directory,
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
      } catch (FileAlreadyExistsException made) {
        // By another controller, just now, or by a stranger, which is seen next.
      }
    }
    DirectoryTrust.require(directory);
  }

  /**
   * Locks something that controllers use one at a time, over all JVMs and class loaders of this
   * machine. The kernel takes the lock away when this JVM dies.
   *
   * @param name of letters, digits, points, hyphens and underscores
   * @param verb what it is locked for, which others are told
   * @return empty when somebody has it, in this JVM or another; {@link #holder} tells who
   * @throws IOException when the directory cannot or must not be used
   */
  public Optional<NamedLock> tryLock(String name, String verb) throws IOException {
    Path file = file(name);
    make();
    make(locks());
    Optional<LockedFile> locked = LockedFile.tryLock(file);
    return locked.isEmpty()
        ? Optional.empty()
        : Optional.of(NamedLock.of(locked.get(), LockHolder.self(verb)));
  }

  /**
   * The same, waiting for the others. An interrupt does not shorten the wait; the flag stays set.
   *
   * @param patience how long
   * @return empty when somebody still has it
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
   * Finds out who has something locked, and takes it from nobody by that.
   *
   * @return empty when nobody has, or when the directory is not there
   */
  public Optional<LockHolder> holder(String name) throws IOException {
    return exists() && LockedFile.isLocked(file(name)) ? record(name).holder() : Optional.empty();
  }

  /** Who has something locked, for a message; also when that cannot be found out. */
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
    return exists() ? record(name).note() : "";
  }

  private LockRecord record(String name) throws IOException {
    return LockRecord.parse(LockedFile.read(file(name)).orElse(""));
  }

  /** The names of all locks that have a file, held or not. */
  public List<String> lockNames() throws IOException {
    List<String> names = new ArrayList<>();
    if (exists() && Files.isDirectory(locks(), LinkOption.NOFOLLOW_LINKS)) {
      try (DirectoryStream<Path> files = Files.newDirectoryStream(locks())) {
        files.forEach(file -> names.add(String.valueOf(file.getFileName())));
      } catch (DirectoryIteratorException e) {
        throw e.getCause();
      }
    }
    return names;
  }

  private Path file(String name) {
    if (!name.matches("[\\w-][\\w.-]*")) {
      throw new IllegalArgumentException("not a lock's name: " + name);
    }
    return locks().resolve(name);
  }

  private Path locks() {
    return path.resolve(LOCKS);
  }

  /**
   * Tells what a verb that needs it would stumble over; changes nothing.
   *
   * @return empty when all is well
   */
  public Optional<String> trouble() {
    try {
      Path there = exists() ? path : DirectoryTrust.requirePlaceFor(path);
      FileSystemRoom room = FileSystemRoom.of(there);
      if (!Files.isWritable(there)) {
        return Optional.of(there + " cannot be written");
      }
      if (room.files() == 0) {
        return Optional.of("the file system of " + there + " has no inodes left");
      }
      return room.bytes() < NEEDED
          ? Optional.of("the file system of " + there + " is full")
          : Optional.empty();
    } catch (IOException e) {
      return Optional.of(path + " cannot be used: " + explain(e));
    }
  }

  /** What a verb throws that cannot do without the directory. */
  public StateDirectoryException unusable(IOException why, String verb, long pid) {
    return new StateDirectoryException(
        "the state directory %s cannot be used (%s): mend that, or name another directory in GPUPROCESS_STATE_DIR; process %s was not touched"
            .formatted(path, explain(why), Long.toString(pid)),
        Failure.of(verb, pid),
        why);
  }

  /** Says why, as an operator would. */
  public String explain(IOException why) {
    if (why instanceof FileSystemException failed && failed.getReason() != null) {
      return path.toString().equals(failed.getFile())
          ? "it " + failed.getReason()
          : failed.getFile() + ": " + failed.getReason();
    }
    return why.toString();
  }
}
