package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;

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
    Process process = new ProcessBuilder(List.of(command)).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(process.waitFor(30, TimeUnit.SECONDS), "did not end: " + List.of(command));
    return process.exitValue() == 0 ? "" : "status " + process.exitValue() + " " + said;
  }
}
