package dev.gpuprocess;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.LaunchOptions;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/** A program that launches jobs. What it says goes into the file {@code said}. */
final class Launcher {

  private static final Duration PATIENCE = Duration.ofSeconds(50);

  private Launcher() {}

  /**
   * Does one thing.
   *
   * @param args {@code descriptors}, {@code orphans}, {@code environment}, {@code stay} or {@code
   *     leave}, and a directory
   */
  public static void main(String[] args) throws IOException {
    Path directory = Path.of(args[1]);
    String said =
        switch (args[0]) {
          case "descriptors" -> descriptors();
          case "orphans" -> orphans();
          case "environment" -> environment(directory);
          default -> longJob(args[0].equals("leave"), directory);
        };
    Path half = directory.resolve("half");
    Files.writeString(half, said);
    Files.move(half, directory.resolve("said"));
    while (args[0].equals("stay") || args[0].equals("leave")) {
      LockSupport.park(); // until it is killed
    }
    System.exit(0);
  }

  private static LaunchedProcess launch(LaunchOptions.Builder options) {
    return GpuCheckpoints.standard().launch(options.build());
  }

  /** What a job has open. */
  private static String descriptors() throws IOException {
    LaunchOptions.Builder options =
        LaunchOptions.builder("sh", "-c", "echo oops >&2; ls -l /proc/self/fd")
            .output(Redirect.PIPE);
    LaunchedProcess joined = launch(options);
    String first = new String(joined.output().orElseThrow().readAllBytes(), StandardCharsets.UTF_8);
    LaunchedProcess apart = launch(options.error(Redirect.PIPE));
    String second =
        new String(apart.output().orElseThrow().readAllBytes(), StandardCharsets.UTF_8)
            + new String(apart.error().orElseThrow().readAllBytes(), StandardCharsets.UTF_8);
    return first + "--\n" + second;
  }

  /** Has a job write its environment into the file {@code environment}. */
  private static String environment(Path directory) {
    LaunchOptions.Builder options =
        LaunchOptions.builder("env", "-0", "W=\u00e9")
            .environment("V", "\u4e16")
            .output(Redirect.to(directory.resolve("environment").toFile()));
    return launch(options).awaitExit(PATIENCE).orElseThrow().code().toString();
  }

  /** What is left of a job of which others than the root end as orphans. */
  private static String orphans() {
    LaunchedProcess job =
        launch(LaunchOptions.builder("sh", "-c", "(sh -c 'kill -9 $$' & sleep 1000 &) ; exit 4"));
    String code = job.awaitExit(PATIENCE).orElseThrow().code().toString();
    job.end(PATIENCE);
    return code + " " + ProcFs.descendants(ProcessHandle.current().pid());
  }

  private static String longJob(boolean survives, Path directory) throws IOException {
    Path child = directory.resolve("child");
    LaunchedProcess job =
        launch(
            LaunchOptions.builder(
                    "sh",
                    "-c",
                    "setsid sh -c 'echo $$ >%s; exec sleep 1000'; exit".formatted(child))
                .survivesExit(survives));
    while (!Files.exists(child) || !Files.readString(child).endsWith("\n")) {
      LockSupport.parkNanos(10_000_000);
    }
    return job.identity().pid() + " " + Files.readString(child).strip();
  }
}
