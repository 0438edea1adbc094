package dev.gpuprocess.examples.demo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.RequiresCriu;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The JShell script runs as {@code bin/jshell} runs it. */
@Tag("jdk")
class JShellTest {

  private static final Path SCRIPTS =
      Path.of(System.getProperty("gpuprocess.root"), "examples", "src", "main", "jshell");

  @Test
  @Timeout(value = 3, unit = TimeUnit.MINUTES)
  @RequiresCriu
  void mainJob(@TempDir Path directory) throws IOException, InterruptedException {
    Path jshell = Path.of(System.getProperty("java.home"), "bin", "jshell");
    assumeTrue(Files.exists(jshell), "this Java has no jshell");
    Path output = directory.resolve("output");
    Process process =
        new ProcessBuilder(
                jshell.toString(),
                "--class-path",
                System.getProperty("java.class.path"),
                "--startup",
                "DEFAULT",
                "--startup",
                SCRIPTS.resolve("startup.jsh").toString(),
                SCRIPTS.resolve("main-job.jsh").toString())
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
    int exit = process.waitFor();
    String said = Files.readString(output, StandardCharsets.UTF_8);
    assertEquals(0, exit, said);
    assertTrue(said.contains("main job: 101 -> 102"), said);
  }
}
