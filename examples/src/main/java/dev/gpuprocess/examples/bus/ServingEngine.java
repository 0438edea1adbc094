package dev.gpuprocess.examples.bus;

import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.function.BooleanSupplier;

/**
 * A process that answers HTTP requests from its GPU memory ({@code serving_engine.py}). The process
 * is not a child of this JVM. The object remains valid when CRIU has restored the process.
 */
public final class ServingEngine implements AutoCloseable {

  /** The shell stays as parent, to reap the process at once; not every init does. */
  private static final String KEEPER = "setsid python3 \"$@\" & wait";

  private static final Duration PATIENCE = Duration.ofMinutes(2);
  private static final int MILLIS = 60_000;

  private final int pid;
  private final int port;

  private ServingEngine(int pid, int port) {
    this.pid = pid;
    this.port = port;
  }

  /**
   * Starts an engine and waits until it can answer.
   *
   * @param directory the place of its files, which must exist as long as the engine runs
   * @param gpu its GPU memory
   * @param host its host memory
   * @param framework {@code torch}, {@code cupy} or a kind of page-locked memory; not used on a
   *     simulated machine
   */
  public static ServingEngine start(
      Machine machine, Path directory, Size gpu, Size host, String framework) throws IOException {
    Path script = directory.resolve("serving_engine.py");
    Path ready = directory.resolve("ready");
    Path errors = directory.resolve("errors");
    try (InputStream in = ServingEngine.class.getResourceAsStream("serving_engine.py")) {
      Files.copy(Objects.requireNonNull(in, "this jar has no serving_engine.py"), script);
    }
    List<String> command =
        List.of(
            "sh",
            "-c",
            KEEPER,
            "sh",
            script.toString(),
            ready.toString(),
            Integer.toString(gpu.mebibytes()),
            Integer.toString(host.mebibytes()),
            machine.isSimulated() ? "driver" : framework);
    ProcessBuilder builder =
        new ProcessBuilder(command)
            .redirectInput(Path.of("/dev/null").toFile())
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .redirectError(errors.toFile());
    builder.environment().putAll(machine.environment());
    Process keeper = builder.start();
    await(
        () -> Files.exists(ready) || !keeper.isAlive(),
        "the serving engine is not ready: see " + errors);
    if (!Files.exists(ready)) {
      throw new IllegalStateException("the serving engine ended: " + Files.readString(errors));
    }
    String[] pidAndPort = Files.readString(ready).strip().split(" ", 2);
    return new ServingEngine(Integer.parseInt(pidAndPort[0]), Integer.parseInt(pidAndPort[1]));
  }

  private static void await(BooleanSupplier condition, String otherwise) {
    if (!Await.until(PATIENCE, condition)) {
      throw new IllegalStateException(otherwise);
    }
  }

  /** Returns the pid of the engine. */
  public int pid() {
    return pid;
  }

  /** Requests an answer, with a checksum that the GPU computes now. */
  public String answer() throws IOException {
    return get("/");
  }

  /** Requests an answer with the checksum of all bytes on the GPU and in host memory. */
  String all() throws IOException {
    return get("/all");
  }

  /** Requests what the engine has at a path; the head of its script lists them. */
  public String get(String path) throws IOException {
    URI uri = URI.create("http://127.0.0.1:" + port + path);
    HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
    connection.setConnectTimeout(MILLIS);
    connection.setReadTimeout(MILLIS);
    // An open connection would be dumped with the process.
    connection.setRequestProperty("Connection", "close");
    try (InputStream in = connection.getInputStream()) {
      return new String(in.readAllBytes(), StandardCharsets.US_ASCII).strip();
    } finally {
      connection.disconnect();
    }
  }

  /** Throws unless two answers are equal. */
  static void requireSame(String expected, String found) {
    if (!found.equals(expected)) {
      throw new IllegalStateException("the engine answers " + found + ", not " + expected);
    }
  }

  /** Waits until the process has exited, as it does after a dump. */
  void awaitEnd() {
    await(() -> ProcessIdentity.of(pid).isEmpty(), "process " + pid + " does not exit");
  }

  /** Kills the process, started or restored, and waits until its pid is free. */
  void end() {
    close();
    awaitEnd();
  }

  @Override
  public void close() {
    if (isOurs()) {
      ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly);
    }
  }

  /** Returns false if another process has got the pid. */
  private boolean isOurs() {
    try {
      return Files.readString(Path.of("/proc", Integer.toString(pid), "cmdline"))
          .contains("serving_engine.py");
    } catch (IOException exited) {
      return false;
    }
  }
}
