package dev.gpuprocess.examples.bus;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The driver's checkpoint functions and the {@code criu} command alone, without checks and
 * checksums. The image is synced.
 */
final class Raw implements Way {

  /** The time limit for one call of CRIU. */
  private static final int SECONDS = 180;

  private static final Duration LIMIT = Duration.ofSeconds(2 * SECONDS);

  private final CudaDriver cuda;
  private final String criu = System.getenv().getOrDefault("GPUPROCESS_CRIU", "criu");
  private final int pid;
  private final List<String> steps = new ArrayList<>();
  private @Nullable Path image;

  Raw(CudaDriver cuda, int pid) {
    this.cuda = cuda;
    this.pid = pid;
  }

  @Override
  public void suspend() throws IOException {
    call("lock", () -> cuda.lock(pid, 0));
    call("checkpoint", () -> cuda.checkpoint(pid));
  }

  @Override
  public void resume() throws IOException {
    call("restore", () -> cuda.restore(pid, Map.of()));
    call("unlock", () -> cuda.unlock(pid));
  }

  @Override
  public void dump(Path place) throws IOException, InterruptedException {
    criuDump(place, List.of());
    sync();
  }

  /** Dumps the process and leaves it running. The image is not synced. */
  void dumpAndLeave(Path place) throws IOException, InterruptedException {
    criuDump(place, List.of("--leave-running"));
  }

  /** Waits until the image is on the disk. */
  void sync() throws IOException, InterruptedException {
    run("sync", List.of("sync", "-f", String.valueOf(image)));
  }

  private void criuDump(Path place, List<String> more) throws IOException, InterruptedException {
    image = Files.createDirectories(place);
    List<String> arguments = new ArrayList<>(List.of("dump", "--tree", Integer.toString(pid)));
    arguments.addAll(List.of("--images-dir", place.toString(), "--log-file", "dump.log"));
    arguments.addAll(more);
    criu("criu dump", arguments);
  }

  @Override
  public void restore() throws IOException, InterruptedException {
    criu(
        "criu restore",
        List.of(
            "restore",
            "--images-dir",
            String.valueOf(image),
            "--restore-detached",
            "--log-file",
            "restore.log"));
    resume();
  }

  private void criu(String name, List<String> arguments) throws IOException, InterruptedException {
    List<String> command =
        new ArrayList<>(List.of("timeout", "-k", "5", Integer.toString(SECONDS), criu));
    command.addAll(arguments);
    // Without plugins: the CUDA plugin would checkpoint the process a second time.
    Path none = Files.createDirectories(Path.of(String.valueOf(image)).resolve("no-plugins"));
    command.addAll(List.of("--libdir", none.toString()));
    run(name, command);
  }

  private void run(String name, List<String> command) throws IOException, InterruptedException {
    long began = System.nanoTime();
    int exit = ProgramRun.of(command).run(LIMIT).exit();
    if (exit != 0) {
      throw new IOException(command + " ended with " + exit + ": " + lastOfLogs());
    }
    took(name, began);
  }

  private String lastOfLogs() throws IOException {
    StringBuilder last = new StringBuilder();
    for (String name : List.of("dump.log", "restore.log")) {
      Path log = Path.of(String.valueOf(image)).resolve(name);
      if (Files.exists(log)) {
        List<String> lines = Files.readAllLines(log, StandardCharsets.UTF_8);
        lines.stream().filter(line -> line.contains("Error")).limit(5).forEach(last::append);
      }
    }
    return last.toString();
  }

  private void call(String name, Supplier<CudaResult> function) throws IOException {
    long began = System.nanoTime();
    CudaResult result = function.get();
    if (!result.ok()) {
      throw new IOException(name + " of process " + pid + " failed: the driver returned " + result);
    }
    took(name, began);
  }

  private void took(String name, long began) {
    steps.add(String.format(Locale.ROOT, "%s %.2f s", name, (System.nanoTime() - began) / 1e9));
  }

  @Override
  public String steps() {
    return String.join(", ", steps);
  }
}
