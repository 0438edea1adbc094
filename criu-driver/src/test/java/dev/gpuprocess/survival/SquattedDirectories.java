package dev.gpuprocess.survival;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;

/**
 * State directories that another user created first, as every user can in a parent that is writable
 * by all. No verb may use them, and no file that the other user names may be written.
 */
final class SquattedDirectories {

  private static final int NOBODY = 65534;
  private static final String PRECIOUS = "what a squatter wants to have overwritten";

  private final Path directory;

  private SquattedDirectories(Path directory) {
    this.directory = directory;
  }

  /** Creates the directories; needs root. */
  static SquattedDirectories in(Path directory) {
    SquattedDirectories squat = new SquattedDirectories(SimulatedMachine.make(directory));
    try {
      Files.writeString(squat.victim(), PRECIOUS);
      squat.make("open");
      Files.createSymbolicLink(squat.make("link").resolve("locks.d"), squat.victim());
      mkfifo(squat.make("fifo").resolve("locks.d"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return squat;
  }

  private Path victim() {
    return directory.resolve("victim");
  }

  private Path make(String name) throws IOException {
    Path made = Files.createDirectory(directory.resolve(name));
    Files.setPosixFilePermissions(made, PosixFilePermissions.fromString("rwxrwxrwx"));
    Files.setAttribute(made, "unix:uid", NOBODY);
    return made;
  }

  private static void mkfifo(Path path) {
    ProgramRun.of("mkfifo", path.toString()).succeed();
  }

  /** Returns the parent of the state directories. */
  Path directory() {
    return directory;
  }

  /** Returns the state directories. */
  static List<Path> directories(Path squat) {
    return List.of("open", "link", "fifo").stream().map(squat::resolve).toList();
  }

  /** Returns whether a file of the other user was written. */
  boolean hasHarmed() {
    try {
      return !Files.readString(victim()).equals(PRECIOUS);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
