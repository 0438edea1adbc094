package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.contract.NativeCalls;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.xml.sax.InputSource;

/** The commands on a simulated machine, with real CRIU where images are made. */
@SimulatedGpu
class CommandLineTest {

  private static final int SIGINT_CODE = 130;
  private static final int SIGPIPE_CODE = 141;
  private static final int SIGTERM_CODE = 143;

  /** A pipe takes 64 KiB, or a page where its user has many. */
  private static final int SMALLEST_PIPE = 4096;

  /** A program that was just started needs long on a busy machine. */
  private static final Duration PATIENCE = Duration.ofMinutes(3);

  @TempDir private Path directory;

  private static Call done(GpuCheckpoints machine, Object... args) {
    Call call = Call.of(machine, args);
    assertEquals(0, call.code(), call::toString);
    return call;
  }

  private static JsonElement json(GpuCheckpoints machine, Object... args) {
    List<Object> all = new ArrayList<>(List.of(args));
    all.add("--json");
    return JsonParser.parseString(done(machine, all.toArray()).out());
  }

  private static void assertState(String state, GpuCheckpoints machine, Counter counter) {
    assertEquals(state + "\n", done(machine, "state", counter.pid()).out());
  }

  @Test
  void changesTheStateStepByStep(GpuCheckpoints machine, Counter counter) {
    assertState("running", machine, counter);
    done(machine, "lock", counter.pid(), "--lock-timeout", "30s");
    assertState("locked", machine, counter);
    done(machine, "checkpoint", counter.pid());
    assertState("checkpointed", machine, counter);
    done(machine, "restore", counter.pid());
    done(machine, "unlock", counter.pid());
    assertEquals(101, counter.increment());
    String toggled = done(machine, "toggle", counter.pid()).out();
    assertTrue(toggled.contains("running -> checkpointed"), toggled);
    done(machine, "toggle", counter.pid());
    done(machine, "suspend", counter.pid(), "--label", "job-42");
    assertEquals(
        "job-42",
        json(machine, "state", counter.pid()).getAsJsonObject().get("label").getAsString());
    done(machine, "resume", counter.pid(), "--gpus", "same");
    assertEquals(102, counter.increment());
  }

  @Test
  void printsTheSameValuesAsJson(GpuCheckpoints machine, Counter counter) {
    var suspended =
        json(machine, "suspend", counter.pid(), "--label", "of a table").getAsJsonObject();
    assertEquals("running", suspended.get("before").getAsString());
    assertEquals("checkpointed", suspended.get("after").getAsString());
    assertTrue(suspended.get("bytes").getAsLong() >= 16 << 20, suspended::toString);
    assertFalse(suspended.getAsJsonArray("steps").isEmpty());
    // Other tests have CUDA processes too.
    var listed =
        json(machine, "ps").getAsJsonArray().asList().stream()
            .map(JsonElement::getAsJsonObject)
            .filter(each -> each.get("pid").getAsLong() == counter.pid())
            .findFirst()
            .orElseThrow();
    assertEquals("checkpointed", listed.get("state").getAsString());
    var members = json(machine, "state", counter.pid(), "--members").getAsJsonArray();
    assertEquals(counter.pid(), members.get(0).getAsJsonObject().get("pid").getAsLong());
    String table = done(machine, "ps").out();
    assertTrue(table.startsWith("PID "), table);
    assertTrue(table.contains("checkpointed"), table);
    assertTrue(table.lines().findFirst().orElse("").contains("LABEL"), table);
    assertTrue(table.contains("of a table"), table);
    assertTrue(json(machine, "recover").isJsonArray());
  }

  @Test
  void hasAnExitCodeForEachGroup(
      GpuCheckpoints machine, SimulatedDriver driver, Counter counter, Workload idle) {
    assertEquals(2, Call.of(machine).code());
    Call wrong = Call.of(machine, "state", "--json", 0);
    assertEquals(2, wrong.code());
    assertEquals(
        "USAGE",
        JsonParser.parseString(wrong.out())
            .getAsJsonObject()
            .get("error")
            .getAsJsonObject()
            .get("group")
            .getAsString());
    Call unknown = Call.of(machine, "sttae");
    assertEquals(2, unknown.code());
    assertTrue(
        unknown.err().contains("'sttae' is not a command; did you mean state"), unknown::err);
    String help = Call.of(machine, "help", "images", "prune").out();
    assertTrue(help.contains("--keep-one-per"), help);
    assertEquals(2, Call.of(machine, "state").code());
    assertEquals(2, Call.of(machine, "suspend", counter.pid(), "--timeout", "soon").code());
    assertEquals(2, Call.of(machine, "images").code());
    assertEquals(4, Call.of(machine, "checkpoint", counter.pid()).code());
    assertEquals(4, Call.of(machine, "images", "verify", directory).code());
    assertEquals(4, Call.of(machine, "images", "list", directory.resolve("typo")).code());
    assertEquals(
        4, Call.of(machine, "images", "prune", directory.resolve("typo"), "--keep", 1).code());
    assertEquals(5, Call.of(machine, "state", idle.pid()).code());
    driver.faults(Fault.in("cuCheckpointProcessLock").answers(600));
    Call busy = Call.of(machine, "suspend", counter.pid(), "--json");
    assertEquals(3, busy.code(), busy::toString);
    var error = JsonParser.parseString(busy.out()).getAsJsonObject().get("error").getAsJsonObject();
    assertEquals("RETRY_LATER", error.get("group").getAsString());
    assertEquals("running", error.get("state").getAsString());
    driver.clearFaults();
    GpuCheckpoints none = machine.toBuilder().cuda(directory).build();
    assertEquals(6, Call.of(none, "state", counter.pid()).code());
    assertEquals(1, Call.of(none, "doctor").code());
    assertEquals(5, Call.of(machine, "state", 999999999, "--timeout", "1ms").code());
  }

  @Test
  void refusesInvalidValues(GpuCheckpoints machine, Counter counter) {
    Path image = directory.resolve("image");
    for (List<Object> each :
        List.<List<Object>>of(
            List.of("images", "prune", directory, "--keep", 0),
            List.of("snapshot", counter.pid(), directory, "--every", "1h", "--keep", 0),
            List.of("dump", counter.pid(), image, "--criu", "ghost-limit=-1"),
            List.of("dump", counter.pid(), ""),
            List.of("snapshot", counter.pid(), "", "--store"),
            List.of("dump", counter.pid(), ""),
            List.of("state", 0),
            List.of("state", "--", -5),
            List.of("resume", "99999999999999999999"),
            List.of("suspend", 1),
            List.of("lock", 1),
            List.of("toggle", 1),
            List.of("dump", 1, image),
            List.of("snapshot", 1, image),
            List.of("dump", counter.pid(), image, "--label", ""),
            List.of("suspend", counter.pid(), "--label", ""),
            List.of("restore-image", image, "--newest", "--expect-label", ""),
            List.of("launch", "--", ""),
            List.of("launch", "--", "echo", "not read in the locale: \ufffd"),
            List.of("slot", "run", "a/b"))) {
      Call call = Call.of(machine, each.toArray());
      assertEquals(2, call.code(), () -> each + " " + call);
      assertFalse(call.err().contains("\tat "), call::err);
    }
    assertEquals(101, counter.increment());
  }

  @Test
  void endsAfterTheTimeout(GpuCheckpoints machine, SimulatedDriver driver, Counter counter) {
    driver.faults(Fault.in("cuCheckpointProcessLock").hangs());
    Call call = Call.of(machine, "suspend", counter.pid(), "--timeout", "3s");
    assertEquals(3, call.code(), call::toString);
    driver.clearFaults();
    assertTrue(call.err().contains("was left as: "), call::toString);
    assertEquals(101, counter.increment());
    NativeCalls.awaitNoneLeftBehind();
  }

  @Test
  @RequiresCriu
  void makesAndUsesImages(GpuCheckpoints machine, Counter counter) throws Exception {
    Path store = directory.resolve("store");
    assertEquals(101, counter.increment());
    done(machine, "snapshot", counter.pid(), store, "--store", "--label", "<i>job & 42</i>");
    done(machine, "snapshot", counter.pid(), store, "--store");
    var listed = json(machine, "images", "list", store).getAsJsonArray();
    assertEquals(2, listed.size());
    String newest = listed.get(0).getAsJsonObject().get("image").getAsString();
    done(machine, "images", "verify", newest);
    var described = json(machine, "images", "describe", newest).getAsJsonObject();
    assertEquals(counter.pid(), described.get("pid").getAsLong());
    assertFalse(described.getAsJsonArray("processes").isEmpty());
    assertTrue(done(machine, "images", "describe", newest).out().contains("KERNEL"));
    describesAsAPage(machine, listed.get(1).getAsJsonObject().get("image").getAsString());
    done(machine, "images", "copy", newest, directory.resolve("copy"));
    Path link = Files.createSymbolicLink(directory.resolve("latest"), Path.of(newest));
    Call linked = Call.of(machine, "images", "describe", link);
    assertEquals(4, linked.code(), linked::toString);
    assertTrue(linked.err().contains("is a link to " + newest), linked::err);
    Call tooLong = Call.of(machine, "dump", counter.pid(), directory.resolve("x".repeat(300)));
    assertEquals(4, tooLong.code(), tooLong::toString);
    assertTrue(tooLong.err().contains("has 300 bytes"), tooLong::err);
    Call nested = Call.of(machine, "snapshot", counter.pid(), newest, "--store");
    assertEquals(4, nested.code(), nested::toString);
    assertTrue(nested.err().contains("is an image, not a directory of images"), nested::err);
    assertEquals(1, json(machine, "images", "prune", store, "--keep", 1).getAsJsonArray().size());
    Path image = directory.resolve("image");
    done(machine, "dump", counter.pid(), image);
    assertFalse(counter.isAlive());
    assertEquals(5, Call.of(machine, "state", counter.pid()).code());
    done(machine, "restore-image", image, "--suspended");
    assertState("checkpointed", machine, counter);
    done(machine, "dump", counter.pid(), store, "--store");
    assertFalse(counter.isAlive());
    done(machine, "restore-image", store, "--newest", "--suspended");
    done(machine, "resume", counter.pid());
    assertEquals(102, counter.increment());
  }

  private void describesAsAPage(GpuCheckpoints machine, String image) throws Exception {
    Path page = directory.resolve("image.html");
    done(machine, "images", "describe", image, "--html", page);
    String html = Files.readString(page);
    assertTrue(html.contains("&lt;i&gt;job &amp; 42&lt;/i&gt;"), html);
    DocumentBuilderFactory.newInstance()
        .newDocumentBuilder()
        .parse(new InputSource(new StringReader(html.replace("<!DOCTYPE html>", ""))));
    for (String each : List.of("Processes", "GPUs", "Timings", "Machine", "Files")) {
      assertTrue(html.contains("<h2>" + each + "</h2>"), each);
    }
    assertTrue(html.contains(machine.gpus().gpus().orElseThrow().get(0).uuid().text()), html);
    assertFalse(html.contains("<script") || html.contains("http:"), html);
  }

  @Test
  @RequiresCriu
  void repeatsSnapshotsUntilTheProcessEndsAndRestoresTheNewest(
      GpuCheckpoints machine, Counter counter) throws Exception {
    Path store = directory.resolve("store");
    assertEquals(101, counter.increment());
    CompletableFuture<Call> series =
        CompletableFuture.supplyAsync(
            () -> Call.of(machine, "snapshot", counter.pid(), store, "--every", "200ms"));
    assertTrue(
        Await.until(Duration.ofSeconds(60), () -> images(machine, store).size() >= 3),
        () -> String.valueOf(series.getNow(null)));
    counter.kill();
    Call ended = series.get(60, TimeUnit.SECONDS);
    assertEquals(0, ended.code(), ended::toString);
    assertTrue(
        ended.out().lines().filter(line -> line.contains(": image ")).count() >= 2,
        ended::toString);

    String newest = images(machine, store).get(0);
    Path manifest = Path.of(newest, "manifest.json");
    Files.writeString(manifest, Files.readString(manifest).replace("\"pid\"", "\"dip\""));
    Call restored = done(machine, "restore-image", store, "--newest");
    assertTrue(
        restored.err().contains("skipped ") && restored.err().contains(newest), restored::toString);
    assertState("running", machine, counter);
    assertEquals(102, counter.increment());
  }

  /** Returns the images of a store, newest first. */
  private static List<String> images(GpuCheckpoints machine, Path store) {
    List<String> images = new ArrayList<>();
    if (Files.isDirectory(store)) {
      json(machine, "images", "list", store)
          .getAsJsonArray()
          .forEach(each -> images.add(each.getAsJsonObject().get("image").getAsString()));
    }
    return images;
  }

  /** Only a pid and --json need no parser; picocli refuses the rest. */
  @Test
  void refusesWhatIsNotAPlainCall(GpuCheckpoints machine, Counter counter) {
    assertEquals(
        "running",
        json(machine, "state", counter.pid()).getAsJsonObject().get("state").getAsString());
    for (String pid : List.of("", "x", "12345678901234567890", "1.5")) {
      assertEquals(2, Call.of(machine, "state", pid).code(), pid);
    }
    assertEquals(2, Call.of(machine, "ps", counter.pid()).code());
    assertEquals(2, Call.of(machine, "state", counter.pid(), counter.pid()).code());
    assertEquals(2, Call.of(machine, "state", "--json").code());
    assertEquals(0, Call.of(machine, "state", "--json", counter.pid()).code());
  }

  @Test
  @RequiresCriu
  void dumpsForkedWorkersThatReleaseTheGpu(GpuCheckpoints machine, Counter counter) {
    long child = counter.forkLoaders(1).get(0);
    Path image = directory.resolve("image");
    Call refused = Call.of(machine, "dump", counter.pid(), image, "--json");
    assertEquals(4, refused.code(), refused::toString);
    assertTrue(refused.out().contains("CUDA_CHILD"), refused::toString);
    var made =
        json(machine, "dump", counter.pid(), image, "--release-inherited-gpu").getAsJsonObject();
    assertEquals(counter.pid(), made.get("pid").getAsLong());
    var processes =
        json(machine, "images", "describe", image).getAsJsonObject().getAsJsonArray("processes");
    assertEquals(child, processes.get(1).getAsJsonObject().get("pid").getAsLong());
    done(machine, "restore-image", image);
    assertEquals(101, counter.increment());
  }

  @Test
  void launchesACommandAndReturnsItsExitCode(GpuCheckpoints machine) {
    assertEquals(7, Call.of(machine, "launch", "--", "sh", "-c", "exit 7").code());
    assertEquals(143, Call.of(machine, "launch", "--", "sh", "-c", "kill -TERM $$").code());
    assertEquals(4, Call.of(machine, "launch", "--", directory + "/none").code());
  }

  /** The program makes the snapshots, so it must stay. */
  @Test
  void launchDoesNotDetachFromACommandThatRequestsSnapshots(GpuCheckpoints machine) {
    Path ran = directory.resolve("ran");
    Call call = Call.of(machine, "launch", "--detach", "--images", directory, "--", "touch", ran);
    assertEquals(2, call.code(), call::toString);
    assertTrue(call.err().contains("--detach"), call::err);
    assertFalse(Files.exists(ran));
  }

  @Test
  void launchHasTheDefaultsOfTheLibrary(GpuCheckpoints machine) throws Exception {
    Path output = directory.resolve("output");
    List<String> preload = List.of("--", "sh", "-c", "echo \"<$LD_PRELOAD>\"");
    for (String option : List.of("--grace=1s", "--no-drop-inherited-gpu")) {
      List<Object> words = new ArrayList<>(List.of("launch", option, "--output", output));
      words.addAll(preload);
      assertEquals(0, Call.of(machine, words.toArray()).code());
    }
    List<String> lines = Files.readAllLines(output);
    assertTrue(lines.get(0).matches("<.+>"), lines::toString);
    assertEquals("<>", lines.get(1));
  }

  /** The command has ended long before its output is read. */
  @Test
  void launchCopiesAllOfTheOutput(GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Path ended = directory.resolve("ended");
    Path err = directory.resolve("err");
    Process child =
        program(machine, driver, "launch", "--", "sh", "-c", "seq 20000; echo >\"$0\"", ended)
            .redirectError(err.toFile())
            .start();
    try (InputStream out = child.getInputStream()) {
      assertTrue(Await.until(PATIENCE, () -> Files.exists(ended)), () -> text(err));
      // It must not end before its output is read, and would in a second.
      assertFalse(child.waitFor(1500, TimeUnit.MILLISECONDS));
      assertEquals(
          IntStream.rangeClosed(1, 20000).mapToObj(Integer::toString).toList(),
          new String(out.readAllBytes(), StandardCharsets.UTF_8).lines().toList());
      assertTrue(child.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS), () -> text(err));
      assertEquals(0, child.exitValue(), () -> text(err));
    } finally {
      child.destroyForcibly();
    }
  }

  /** A script that repeats a command which has succeeded finds the process in another state. */
  @Test
  void succeedsIfASignalComesTooLateToCancelIt(
      GpuCheckpoints machine, SimulatedDriver driver, Counter counter) throws Exception {
    done(machine, "suspend", counter.pid());
    driver.faults(Fault.in("cuCheckpointProcessUnlock").hangs(Duration.ofSeconds(5)));
    Path out = directory.resolve("out");
    Path err = directory.resolve("err");
    Process child =
        program(machine, driver, "resume", counter.pid())
            .redirectError(err.toFile())
            .redirectOutput(out.toFile())
            .start();
    try {
      // It is restored and not unlocked yet.
      assertTrue(
          Await.until(PATIENCE, () -> machine.inspect(counter.pid()) instanceof LockedProcess),
          () -> text(err));
      Signal.send("INT", child.pid());
      assertTrue(child.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS), () -> text(err));
      assertTrue(text(out).contains("checkpointed -> running"), () -> text(out) + text(err));
      assertEquals(0, child.exitValue(), () -> text(err));
    } finally {
      child.destroyForcibly();
      driver.clearFaults();
    }
    assertEquals(101, counter.increment());
  }

  @Test
  void launchedCommandNoticesThatItsReaderIsGone(GpuCheckpoints machine, SimulatedDriver driver)
      throws Exception {
    Path err = directory.resolve("err");
    Process child =
        program(machine, driver, "launch", "--", "yes").redirectError(err.toFile()).start();
    try {
      try (InputStream out = child.getInputStream()) {
        assertEquals('y', out.read(), () -> text(err));
      }
      assertTrue(child.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS), () -> text(err));
      assertEquals(SIGPIPE_CODE, child.exitValue(), () -> text(err));
    } finally {
      child.destroyForcibly();
    }
  }

  @Test
  void recoverResumesTheOthersIfOneCannotBeResumed(
      GpuCheckpoints machine, SimulatedDriver driver, Counter stuck) throws Exception {
    Counter other = driver.start(Counter.launch(16));
    for (Counter each : List.of(stuck, other)) {
      // The controller must have exited.
      Process child = program(machine, driver, "suspend", each.pid()).inheritIO().start();
      assertTrue(child.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS));
    }
    driver.faults(Fault.in("cuCheckpointProcessRestore").pid(stuck.pid()).answers(304));
    Call call = Call.of(machine, "recover", "--resume", "--json");
    driver.clearFaults();
    assertEquals(5, call.code(), call::toString);
    assertEquals(
        Set.of(stuck.pid() + " false", other.pid() + " true"),
        JsonParser.parseString(call.out()).getAsJsonArray().asList().stream()
            .map(JsonElement::getAsJsonObject)
            .peek(
                each ->
                    assertEquals(
                        each.get("resumed").getAsBoolean(), each.get("failure").isJsonNull()))
            .map(each -> each.get("pid") + " " + each.get("resumed"))
            .collect(Collectors.toSet()));
    assertState("running", machine, other);
    done(machine, "resume", stuck.pid());
  }

  /** A real process, as its shutdown hook belongs to the JVM. */
  @Test
  void isCancelledBySigint(GpuCheckpoints machine, SimulatedDriver driver, Counter counter)
      throws Exception {
    driver.faults(Fault.in("cuCheckpointProcessLock").hangs(Duration.ofSeconds(20)));
    Path err = directory.resolve("err");
    Process child =
        program(machine, driver, "suspend", Long.toString(counter.pid()), "--lock-timeout", "60s")
            .redirectError(err.toFile())
            .redirectOutput(directory.resolve("out").toFile())
            .start();
    try {
      // The journal has an entry before the driver is called.
      assertTrue(Await.until(PATIENCE, () -> isLocking(machine, counter)), () -> text(err));
      Signal.send("INT", child.pid());
      assertTrue(child.waitFor(40, TimeUnit.SECONDS), () -> text(err));
      assertEquals(SIGINT_CODE, child.exitValue(), () -> text(err));
      assertTrue(text(err).contains("was left as: "), () -> text(err));
    } finally {
      child.destroyForcibly();
      driver.clearFaults();
    }
    assertEquals(101, counter.increment());
  }

  /** The reader has stopped, so its pipe is full. */
  @Test
  void endsBySigtermAlthoughNobodyReadsTheOutput(GpuCheckpoints machine, SimulatedDriver driver)
      throws Exception {
    Path err = directory.resolve("err");
    Process child =
        program(machine, driver, "launch", "--", "yes").redirectError(err.toFile()).start();
    try (InputStream out = child.getInputStream()) {
      assertTrue(Await.until(PATIENCE, () -> available(out) >= SMALLEST_PIPE), () -> text(err));
      Signal.send("TERM", child.pid());
      assertTrue(child.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS), () -> text(err));
      assertEquals(SIGTERM_CODE, child.exitValue(), () -> text(err));
    } finally {
      child.destroyForcibly();
    }
  }

  /** The same for the result of a command, which its own thread prints. */
  @Test
  void endsBySigtermWhileItPrints(GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    assumeTrue(Files.exists(Path.of("/proc/self/stack")), "this kernel shows no stacks");
    Path pipe = directory.resolve("pipe");
    assertEquals("", ProgramRun.of("mkfifo", pipe.toString()).succeed());
    Path err = directory.resolve("err");
    try (RandomAccessFile held = new RandomAccessFile(pipe.toFile(), "rw")) {
      Process filling = new ProcessBuilder("yes").redirectOutput(pipe.toFile()).start();
      assertTrue(Await.until(PATIENCE, () -> isWriting(filling)));
      filling.destroyForcibly().waitFor();
      Process child =
          program(machine, driver, "completion")
              .redirectError(err.toFile())
              .redirectOutput(pipe.toFile())
              .start();
      try {
        assertTrue(Await.until(PATIENCE, () -> isWriting(child)), () -> text(err));
        Signal.send("TERM", child.pid());
        assertTrue(child.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS), () -> text(err));
        assertEquals(SIGTERM_CODE, child.exitValue(), () -> text(err));
      } finally {
        child.destroyForcibly();
      }
    }
  }

  private static boolean isWriting(Process child) {
    try (Stream<Path> threads = Files.list(Path.of("/proc/" + child.pid() + "/task"))) {
      for (Path each : threads.toList()) {
        if (Files.readString(each.resolve("stack")).contains("pipe_write")) {
          return true;
        }
      }
    } catch (IOException e) {
      return false; // a thread has ended while the list was read
    }
    return false;
  }

  private static int available(InputStream in) {
    try {
      return in.available();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static ProcessBuilder program(
      GpuCheckpoints machine, SimulatedDriver driver, Object... args) {
    // A shell that starts the tests in the background lets them ignore SIGINT.
    List<String> command = new ArrayList<>(List.of("env", "--default-signal=INT"));
    command.addAll(
        Call.program(
            driver, machine, List.of("-Dorg.slf4j.simpleLogger.defaultLogLevel=trace"), args));
    return new ProcessBuilder(command);
  }

  private static boolean isLocking(GpuCheckpoints machine, Counter counter) {
    try (Stream<Path> entries = Files.list(machine.stateDirectory())) {
      return entries
          .filter(entry -> entry.toString().endsWith(".process"))
          .anyMatch(entry -> text(entry).contains("target.pid=" + counter.pid()));
    } catch (IOException notThereYet) {
      return false;
    }
  }

  private static String text(Path file) {
    try {
      return Files.readString(file, StandardCharsets.UTF_8);
    } catch (IOException e) {
      return e.toString();
    }
  }
}
