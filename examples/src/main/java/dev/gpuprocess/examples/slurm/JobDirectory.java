package dev.gpuprocess.examples.slurm;

import static java.nio.file.LinkOption.NOFOLLOW_LINKS;
import static java.nio.file.StandardCopyOption.ATOMIC_MOVE;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.ImageException.Reason;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * The directory of a job on the shared disk: its images, and records for the next run. The disk may
 * be open to all users, so a directory or record that other users could have written is refused,
 * and links are not followed.
 */
final class JobDirectory {

  private static final String IMAGES = "images";
  private static final String OUTPUT = "output";
  private static final String FINISHED = "finished";
  private static final String FAILED_NODES = "failed-nodes";
  private static final String READY = "ready";

  /** Follows the name of a job that another user has taken. */
  private static final String TAKEN = ".own-%s";

  private static final int RANDOM_DIGITS = 16;

  private static final int MOST_BYTES = 4 << 10;

  private final Path path;

  private JobDirectory(Path path) {
    this.path = path;
  }

  /**
   * Opens the directory of a job. Job ids are used again after a controller has lost its state, so
   * the first run of a job never takes what another job has left. If another user has taken the
   * name, the directory gets one that cannot be guessed, by which later runs find it.
   *
   * @param images the directory of all jobs
   * @param job the job
   * @param stale receives the place to which the directory of an earlier job was moved
   * @throws ImageException if it cannot be made, other users could have written it, or the
   *     directory of all jobs is not on this node, where the job is restarted: its images may be on
   *     a disk that is not mounted
   */
  static JobDirectory open(Path images, SlurmJob job, List<Path> stale) {
    Path all = images.toAbsolutePath();
    Path path = all.resolve(job.name());
    try {
      if (job.restarts() == 0) {
        Files.createDirectories(all);
      } else if (!Files.isDirectory(all)) {
        throw refused(
            Reason.MISSING,
            all,
            "is not there on this node, although job %s has run before: mount its disk, or make the directory if the job has not made an image yet; then scontrol requeue %s"
                .formatted(job.id(), job.id()),
            null);
      }
      if (job.restarts() > 0) {
        path = known(path);
      } else {
        for (Path each : unguessable(path)) {
          stale.add(moveAside(each));
        }
        path = free(path, stale);
      }
      create(path);
      JobDirectory directory = new JobDirectory(path);
      try (PinnedDirectory held = directory.pin()) {
        create(held.path().resolve(IMAGES));
        try (PinnedDirectory child = held.child(IMAGES)) {
          requireOurs(child.name(), Ownership.of(child));
        }
      }
      return directory;
    } catch (NotDirectoryException e) {
      throw refused(
          Reason.DIRECTORY, e.getFile(), "is a link or a file, not a directory: remove it", e);
    } catch (IOException e) {
      throw refused(
          Reason.DIRECTORY,
          path,
          "cannot be made: %s; name a directory with --images that this user can write to"
              .formatted(reason(e)),
          e);
    }
  }

  /** Returns the directories of this user for a job whose name another user had taken. */
  private static List<Path> unguessable(Path path) throws IOException {
    List<Path> found = new ArrayList<>();
    try (DirectoryStream<Path> entries =
        Files.newDirectoryStream(
            path.getParent(), path.getFileName() + TAKEN.formatted("?".repeat(RANDOM_DIGITS)))) {
      for (Path each : entries) {
        if (!isOfAnother(each)) {
          found.add(each);
        }
      }
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
    return found;
  }

  /**
   * Finds the directory that an earlier run has made. Another user that had taken the name may have
   * let it go since.
   */
  private static Path known(Path path) throws IOException {
    boolean isThere = Files.exists(path, NOFOLLOW_LINKS) && !isOfAnother(path);
    return isThere ? path : unguessable(path).stream().findFirst().orElse(path);
  }

  private static boolean isOfAnother(Path path) throws IOException {
    try {
      return Ownership.of(path).uid() != CurrentUser.get().effectiveUid();
    } catch (NoSuchFileException none) {
      return false;
    }
  }

  /** Makes a name free for the first run of a job, or chooses another one. */
  private static Path free(Path path, List<Path> stale) throws IOException {
    if (Files.exists(path, NOFOLLOW_LINKS)) {
      boolean isOfAnother = isOfAnother(path);
      try {
        stale.add(moveAside(path));
      } catch (ImageException e) {
        if (!isOfAnother) {
          throw e;
        }
        byte[] random = new byte[RANDOM_DIGITS / 2];
        new SecureRandom().nextBytes(random);
        return path.resolveSibling(
            path.getFileName() + TAKEN.formatted(HexFormat.of().formatHex(random)));
      }
    }
    return path;
  }

  /**
   * Opens the directory of a job without a change.
   *
   * @throws ImageException if other users could have written it
   */
  static JobDirectory existing(Path path) {
    JobDirectory directory = new JobDirectory(path);
    try (PinnedDirectory held = directory.pin();
        PinnedDirectory images = held.child(IMAGES)) {
      requireOurs(images.name(), Ownership.of(images));
      return directory;
    } catch (IOException e) {
      throw refused(Reason.DIRECTORY, path, "is not the directory of a job: " + reason(e), e);
    }
  }

  /** Returns when the last image was made or removed. */
  Instant lastChange() {
    try {
      return Files.getLastModifiedTime(images(), NOFOLLOW_LINKS).toInstant();
    } catch (IOException e) {
      return Instant.MAX;
    }
  }

  /** Removes the directory of a job that Slurm does not know any more; other files stay. */
  void remove() {
    try {
      try (PinnedDirectory held = pin()) {
        for (String name : List.of(FINISHED, FAILED_NODES, READY, IMAGES)) {
          Files.deleteIfExists(held.path().resolve(name));
        }
      }
      Files.delete(path);
    } catch (DirectoryNotEmptyException output) {
      return;
    } catch (IOException e) {
      throw refused(Reason.UNWRITABLE, path, "cannot be removed: " + reason(e), e);
    }
  }

  private static Path moveAside(Path path) {
    try {
      return Files.move(
          path, path.resolveSibling(path.getFileName() + ".stale-" + System.currentTimeMillis()));
    } catch (IOException e) {
      throw refused(
          Reason.DIRECTORY,
          path,
          "is of an earlier job or of another user, and cannot be moved aside: %s; have it removed,"
                  .formatted(reason(e))
              + " or name another directory with --images",
          e);
    }
  }

  /** Not with the umask: images and output hold the memory and the data of the command. */
  private static void create(Path directory) throws IOException {
    try {
      Files.createDirectory(
          directory, PosixFilePermissions.asFileAttribute(DurableFiles.PRIVATE_DIRECTORY));
    } catch (FileAlreadyExistsException ofAnEarlierRun) {
      return;
    }
  }

  /** Opens the directory itself, so that no other user can exchange it while it is used. */
  private PinnedDirectory pin() throws IOException {
    PinnedDirectory held = PinnedDirectory.openItself(path);
    try {
      requireOurs(path, Ownership.of(held));
      return held;
    } catch (IOException | RuntimeException e) {
      held.close();
      throw e;
    }
  }

  private static void requireOurs(Path shown, Ownership found) throws IOException {
    if (!found.isOurs()) {
      throw refused(
          Reason.NOT_TRUSTED,
          shown,
          "(%s) could have been written by other users: if it is yours, check what is in it, then"
                  .formatted(found)
              + " chmod -R go-w it; otherwise have it removed, or name another directory with"
              + " --images",
          null);
    }
  }

  Path images() {
    return path.resolve(IMAGES);
  }

  /**
   * Returns the file for output that cannot go to where this process writes. It is created, since
   * the command opens it by its path.
   *
   * @throws ImageException if it cannot be created, or other users could have written it
   */
  Path output() {
    Path shown = path.resolve(OUTPUT);
    try (PinnedDirectory held = pin()) {
      Path file = held.path().resolve(OUTPUT);
      try {
        Files.createFile(file, PosixFilePermissions.asFileAttribute(DurableFiles.PRIVATE_FILE));
      } catch (FileAlreadyExistsException ofAnEarlierRun) {
        if (!Files.isRegularFile(file, NOFOLLOW_LINKS)) {
          throw refused(
              Reason.NOT_TRUSTED, shown, "is a link or not a regular file: remove it", null);
        }
      }
      requireOurs(shown, Ownership.of(file));
      return shown;
    } catch (IOException e) {
      throw refused(Reason.UNWRITABLE, shown, "cannot be created: " + reason(e), e);
    }
  }

  /** Returns the exit code of the command, if an earlier run has seen its end. */
  OptionalInt finished() {
    return read(FINISHED)
        .map(text -> OptionalInt.of(exitCode(text.strip())))
        .orElse(OptionalInt.empty());
  }

  private int exitCode(String text) {
    if (!text.matches("\\d{1,3}")) {
      throw refused(
          Reason.CORRUPT,
          path.resolve(FINISHED),
          "has no exit code: remove it to run the command again",
          null);
    }
    return Integer.parseInt(text);
  }

  void recordFinished(int code) {
    record(FINISHED, Integer.toString(code));
  }

  /** Returns the nodes on which the last restores have failed, the first one first. */
  List<String> failedNodes() {
    return read(FAILED_NODES).map(text -> text.lines().toList()).orElse(List.of());
  }

  void recordFailedNodes(List<String> nodes) {
    record(FAILED_NODES, String.join("\n", nodes));
  }

  void clearFailedNodes() {
    clear(FAILED_NODES);
  }

  /**
   * Records that a requeue interrupts no dump of this task; the run is one with that many restarts.
   */
  void recordReady(int restarts) {
    record(READY, Integer.toString(restarts));
  }

  void clearReady() {
    clear(READY);
  }

  /**
   * Returns whether a requeue interrupts no dump of another task, which may have no directory yet.
   *
   * @param task the name of the task
   * @param restarts those of the run
   */
  boolean isReady(String task, int restarts) {
    Path other = path.resolveSibling(task);
    try {
      other = known(other);
    } catch (IOException e) {
      throw refused(Reason.UNREADABLE, other, "cannot be found: " + reason(e), e);
    }
    return Files.notExists(other, NOFOLLOW_LINKS)
        || new JobDirectory(other)
            .read(READY)
            .filter(Integer.toString(restarts)::equals)
            .isPresent();
  }

  private Optional<String> read(String name) {
    Path shown = path.resolve(name);
    try (PinnedDirectory held = pin()) {
      Path file = held.path().resolve(name);
      try (RandomAccessFile in = Descriptors.readRegular(file)) {
        requireOurs(shown, Ownership.of(file));
        if (in.length() > MOST_BYTES) {
          throw new FileSystemException(
              file.toString(), null, "has more than " + MOST_BYTES + " bytes");
        }
        byte[] content = new byte[(int) in.length()];
        in.readFully(content);
        return Optional.of(new String(content, StandardCharsets.UTF_8));
      } catch (NoSuchFileException none) {
        return Optional.empty();
      }
    } catch (IOException e) {
      throw refused(
          Reason.UNREADABLE,
          shown,
          "is a record of the job that cannot be read: %s; mend that or remove the record"
              .formatted(reason(e)),
          e);
    }
  }

  private void clear(String name) {
    try (PinnedDirectory held = pin()) {
      Files.deleteIfExists(held.path().resolve(name));
    } catch (IOException e) {
      throw refused(Reason.UNWRITABLE, path.resolve(name), "cannot be removed: " + reason(e), e);
    }
  }

  /** The record is on disk and complete, or is not there. */
  private void record(String name, String text) {
    try (PinnedDirectory held = pin()) {
      Path written = held.path().resolve(name + ".new");
      Files.deleteIfExists(written);
      try {
        DurableFiles.write(written, text.getBytes(StandardCharsets.UTF_8));
        Files.move(written, held.path().resolve(name), ATOMIC_MOVE);
      } finally {
        Files.deleteIfExists(written);
      }
      Descriptors.sync(held.path());
    } catch (IOException e) {
      throw refused(Reason.UNWRITABLE, path.resolve(name), "cannot be written: " + reason(e), e);
    }
  }

  private static String reason(IOException e) {
    if (e instanceof FileSystemException failed) {
      String reason = failed.getReason();
      return reason != null ? reason : e.getClass().getSimpleName();
    }
    return e.toString();
  }

  private static ImageException refused(
      Reason reason, Object file, String what, @Nullable IOException cause) {
    return new ImageException(reason, file + " " + what, Failure.of("run", 0), cause);
  }

  @Override
  public String toString() {
    return path.toString();
  }
}
