package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The command line as the build packs it. Other tests use its classes before they are packed. */
@SimulatedGpu
class PackagedIT {

  private static final Pattern PORT = Pattern.compile("metrics on port (\\d+)");

  @TempDir private Path directory;

  private final SimulatedDriver driver;
  private final GpuCheckpoints machine;

  PackagedIT(SimulatedDriver driver, GpuCheckpoints machine) {
    this.driver = driver;
    this.machine = machine;
  }

  private static String jar(String name) {
    return Path.of(System.getProperty("gpuprocess.root"), "examples", "target", name).toString();
  }

  private List<String> command(String jar, Object... arguments) {
    List<String> words = new ArrayList<>();
    words.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    words.addAll(Call.properties(driver, machine));
    words.addAll(List.of("-jar", jar(jar)));
    words.addAll(Call.words(arguments));
    return words;
  }

  @ParameterizedTest
  @ValueSource(strings = {"gpuprocess.jar", "gpuprocess-agent.jar"})
  void hasEachOfOurClassesThatItNeeds(String name) {
    StringWriter printed = new StringWriter();
    PrintWriter out = new PrintWriter(printed, true);
    int code =
        ToolProvider.findFirst("jdeps")
            .orElseThrow()
            .run(out, out, "--multi-release", "17", "--missing-deps", jar(name));
    assertEquals(0, code, printed::toString);
    // It also prints annotations of other libraries, which need not be there at run time.
    assertEquals(
        List.of(),
        printed.toString().lines().filter(line -> line.contains("> dev.gpuprocess.")).toList());
  }

  @Test
  void suspendsAndResumesAProcess(Counter counter) {
    assertEquals(101, counter.increment());
    for (String verb : List.of("suspend", "resume")) {
      ProgramRun.of(command("gpuprocess.jar", verb, counter.pid())).succeed(Duration.ofMinutes(3));
    }
    assertEquals(102, counter.increment());
  }

  @Test
  void theAgentServes() throws IOException, InterruptedException {
    List<String> command =
        command(
            "gpuprocess-agent.jar",
            "agent",
            "--no-token",
            "--listen=127.0.0.1:0",
            "--http=127.0.0.1:0",
            "--images=" + directory.resolve("images"));
    Process agent = new ProcessBuilder(command).redirectErrorStream(true).start();
    try (BufferedReader printed = agent.inputReader()) {
      String line = printed.readLine();
      Matcher port = PORT.matcher(String.valueOf(line));
      assertTrue(port.find(), line);
      assertEquals("ok\n", get(port.group(1), "readyz"));
      String metrics = get(port.group(1), "metrics");
      assertTrue(metrics.contains("gpuprocess_suspended_processes 0"), metrics);
      agent.destroy();
      assertEquals(143, agent.waitFor(), "as SIGTERM ends a JVM");
    } finally {
      agent.destroyForcibly().waitFor();
    }
  }

  private static String get(String port, String path) throws IOException, InterruptedException {
    URI uri = URI.create("http://127.0.0.1:%s/%s".formatted(port, path));
    return HttpClient.newHttpClient()
        .send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString())
        .body();
  }
}
