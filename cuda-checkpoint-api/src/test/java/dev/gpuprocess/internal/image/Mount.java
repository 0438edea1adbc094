package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A small file system in memory, mounted for one test. */
final class Mount implements AutoCloseable {

  private final Path path;

  private Mount(Path path) {
    this.path = path;
  }

  /** Mounts one on a new directory; if that is not permitted, the test is skipped. */
  static Mount tmpfs(Path path, String size) throws IOException, InterruptedException {
    Files.createDirectories(path);
    String refusal =
        run("mount", "-t", "tmpfs", "-o", "size=" + size + ",mode=0700", "none", path.toString());
    assumeTrue(refusal.isEmpty(), "file systems cannot be mounted here: " + refusal);
    return new Mount(path);
  }

  Path path() {
    return path;
  }

  void makeReadOnly() throws IOException, InterruptedException {
    assertEquals("", run("mount", "-o", "remount,ro", path.toString()));
  }

  void makeWritable() throws IOException, InterruptedException {
    assertEquals("", run("mount", "-o", "remount,rw", path.toString()));
  }

  @Override
  public void close() throws IOException {
    try {
      assertEquals("", run("umount", path.toString()));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException(path + " may still be mounted", e);
    }
  }

  /** Runs a program; returns its output if it fails, or nothing. */
  static String run(String... command) throws IOException, InterruptedException {
    ProgramRun.Ended ended = ProgramRun.of(command).run();
    return ended.exit() == 0 ? "" : "status " + ended.exit() + " " + ended.printed();
  }
}
