package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A file system in a file, whose disk can be made to hang. */
final class LoopMount implements AutoCloseable {

  private static final long BYTES = 64L << 20;

  private final Path path;

  private LoopMount(Path path) {
    this.path = path;
  }

  /** Mounts one; if that is not permitted, the test is skipped. */
  static LoopMount in(Path directory) throws IOException {
    return in(directory, BYTES);
  }

  /** Mounts one of another size. */
  static LoopMount in(Path directory, long bytes) throws IOException {
    Path file = directory.resolve("disk");
    Path path = Files.createDirectory(directory.resolve("mounted"));
    try (RandomAccessFile disk = new RandomAccessFile(file.toFile(), "rw")) {
      disk.setLength(bytes);
    }
    String refusal = run("mkfs.ext4", "-q", "-m", "0", file.toString());
    refusal +=
        refusal.isEmpty() ? run("mount", "-o", "loop", file.toString(), path.toString()) : "";
    assumeTrue(refusal.isEmpty(), "no file system in a file can be mounted here: " + refusal);
    return new LoopMount(path);
  }

  Path path() {
    return path;
  }

  /** From now on writes hang, and cannot be interrupted. */
  void hang() {
    assertEquals("", run("fsfreeze", "--freeze", path.toString()));
  }

  /** Lets the hanging writes continue. */
  void goOn() {
    run("fsfreeze", "--unfreeze", path.toString());
  }

  /** Fills it almost completely, for root too. */
  void fill() throws IOException {
    long room = path.toFile().getUsableSpace() - (64 << 10);
    run("fallocate", "--length", Long.toString(room), path.resolve("filler").toString());
  }

  void makeReadOnly() {
    assertEquals("", run("mount", "-o", "remount,ro", path.toString()));
  }

  @Override
  public void close() {
    goOn();
    assertEquals("", run("umount", path.toString()));
  }

  private static String run(String... command) {
    try {
      ProgramRun.Ended ended = ProgramRun.of(command).run();
      return ended.exit() == 0 ? "" : "status " + ended.exit() + " " + ended.printed();
    } catch (UncheckedIOException e) {
      return e.getMessage();
    }
  }
}
