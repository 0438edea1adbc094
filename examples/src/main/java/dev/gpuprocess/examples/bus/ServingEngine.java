package dev.gpuprocess.examples.bus;

import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.process.ProcessIdentity;
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
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * A process that answers HTTP requests from its GPU memory ({@code serving_engine.py}). It is no
 * child of this JVM, and stays the same engine when CRIU has restored it.
 */
final class ServingEngine implements AutoCloseable {

  /** Its parent takes note of its end at once, as not every init does. */
  private static final String KEEPER = "setsid python3 \"$@\" & wait";

  private static final Duration PATIENCE = Duration.ofMinutes(2);
  private static final int MILLIS = 60_000;
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(2);

  private final int pid;
  private final int port;

  private ServingEngine(int pid, int port) {
    this.pid = pid;
    this.port = port;
  }

  /**
   * Starts one and waits until it can answer.
   *
   * @param directory for its files, which stays as long as it runs
   * @param gpu memory that it holds there
   * @param host memory that it holds besides
   * @param framework {@code torch} or {@code cupy}; none is used on a simulated machine
   */
  static ServingEngine start(Machine machine, Path directory, Size gpu, Size host, String framework)
      throws IOException {
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
    String[] told = Files.readString(ready).strip().split(" ", 2);
    return new ServingEngine(Integer.parseInt(told[0]), Integer.parseInt(told[1]));
  }

  private static void await(BooleanSupplier condition, String otherwise) {
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() - deadline >= 0) {
        throw new IllegalStateException(otherwise);
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }

  int pid() {
    return pid;
  }

  /** Its answer to a request, with a checksum that the GPU makes now. */
  String answer() throws IOException {
    return get("/");
  }

  /** The same of every byte, in host memory too. */
  String all() throws IOException {
    return get("/all");
  }

  private String get(String path) throws IOException {
    URI uri = URI.create("http://127.0.0.1:" + port + path);
    HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
    connection.setConnectTimeout(MILLIS);
    connection.setReadTimeout(MILLIS);
    // Left open it would be dumped with the process.
    connection.setRequestProperty("Connection", "close");
    try (InputStream in = connection.getInputStream()) {
      return new String(in.readAllBytes(), StandardCharsets.US_ASCII).strip();
    } finally {
      connection.disconnect();
    }
  }

  /** Fails unless two answers of an engine are the same. */
  static void requireSame(String expected, String found) {
    if (!found.equals(expected)) {
      throw new IllegalStateException("the engine answers " + found + ", not " + expected);
    }
  }

  /** Waits until it is gone, as it is behind a dump. */
  void awaitEnd() {
    await(() -> ProcessIdentity.of(pid).isEmpty(), "process " + pid + " does not end");
  }

  /** Ends it, wherever it is from, so that its pid can be taken. */
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

  /** Another process may have got its pid. */
  private boolean isOurs() {
    try {
      return Files.readString(Path.of("/proc", Integer.toString(pid), "cmdline"))
          .contains("serving_engine.py");
    } catch (IOException gone) {
      return false;
    }
  }
}
