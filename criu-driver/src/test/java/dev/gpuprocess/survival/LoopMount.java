package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;

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
      Process process = new ProcessBuilder(List.of(command)).redirectErrorStream(true).start();
      String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertTrue(process.waitFor(20, TimeUnit.SECONDS), "did not end: " + List.of(command));
      return process.exitValue() == 0 ? "" : "status " + process.exitValue() + " " + said;
    } catch (IOException e) {
      return e.getMessage();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
