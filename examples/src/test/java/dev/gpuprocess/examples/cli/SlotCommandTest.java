package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.options.Cancellation;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The commands on a slot, which reach its controller through the socket. */
@SimulatedGpu(gpus = 2)
class SlotCommandTest {

  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final Duration SOON = Duration.ofMillis(100);

  @TempDir private Path directory;

  private final SimulatedDriver driver;
  private final GpuCheckpoints machine;
  private final Counter one;
  private final Counter two;
  private final Counter elsewhere;

  SlotCommandTest(SimulatedDriver driver, GpuCheckpoints machine) {
    this.driver = driver;
    this.machine = machine;
    this.one = driver.start(Counter.launch(16));
    this.two = driver.start(Counter.launch(16));
    this.elsewhere = driver.start(Counter.launch(16).gpu(1));
  }

  /** A slot that is open in the foreground, as `slot run` has it, on another thread. */
  private final class OpenSlot implements AutoCloseable {
    private final Cancellation cancellation = new Cancellation();
    private final CompletableFuture<Call> ended = new CompletableFuture<>();
    private final Thread thread;

    OpenSlot(Object... options) {
      List<Object> args = new ArrayList<>(List.of("slot", "run", "main"));
      args.addAll(List.of(options));
      thread =
          new Thread(() -> ended.complete(Call.of(machine, cancellation, args.toArray())), "slot");
      thread.start();
      assertTrue(
          Await.until(PATIENCE, () -> Files.exists(socket()) || ended.isDone()),
          "the slot did not open");
      assertFalse(ended.isDone(), ended::toString);
    }

    /** Ends it as SIGINT does. */
    Call end() throws Exception {
      cancellation.cancel();
      thread.interrupt();
      return ended.get(60, TimeUnit.SECONDS);
    }

    @Override
    public void close() throws Exception {
      end();
    }
  }

  private Path socket() {
    return machine.stateDirectory().resolve("slot-main.socket");
  }

  private Call slot(Object... args) {
    List<Object> all = new ArrayList<>(List.of("slot"));
    all.addAll(List.of(args));
    return Call.of(machine, all.toArray());
  }

  private JsonObject done(Object... args) {
    List<Object> all = new ArrayList<>(List.of(args));
    all.add("--json");
    Call call = slot(all.toArray());
    assertEquals(0, call.code(), call::toString);
    return JsonParser.parseString(call.out()).getAsJsonObject();
  }

  private String place(Counter counter) {
    Call call = slot("list", "main", "--json");
    assertEquals(0, call.code(), call::toString);
    JsonArray all = JsonParser.parseString(call.out()).getAsJsonArray();
    for (var each : all) {
      if (each.getAsJsonObject().get("pid").getAsLong() == counter.pid()) {
        return each.getAsJsonObject().get("place").getAsString();
      }
    }
    return "not in the slot";
  }

  private void assertComesTo(String place, Counter counter) {
    assertTrue(
        Await.until(PATIENCE, () -> place(counter).equals(place)),
        () -> slot("list", "main").toString());
  }

  private static String text(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Its callers take them all, and give them back. */
  @Test
  void answersAgainAfterItsProgramHadNoDescriptor() throws Exception {
    Path log = directory.resolve("log");
    List<String> command = new ArrayList<>(List.of("sh", "-c", "ulimit -n 200; exec \"$@\"", "sh"));
    command.addAll(Call.program(driver, machine, List.of(), "slot", "run", "main"));
    Process controller =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
    List<SocketChannel> idle = new ArrayList<>();
    try {
      assertTrue(Await.until(PATIENCE, () -> Files.exists(socket())), "the slot did not open");
      // The first request loads what the others need.
      assertEquals(0, slot("list", "main").code());
      // One after the other: where too many wait for the controller, a connection waits too.
      while (!Await.until(SOON, () -> text(log).contains("cannot be taken yet"))) {
        idle.add(SocketChannel.open(UnixDomainSocketAddress.of(socket())));
      }
      for (SocketChannel each : idle) {
        each.close();
      }
      assertEquals(0, slot("list", "main").code());
    } finally {
      for (SocketChannel each : idle) {
        each.close();
      }
      controller.destroyForcibly();
      controller.waitFor();
    }
  }

  @Test
  void letsProcessesTakeTurns() throws Exception {
    Path chart = directory.resolve("turns.svg");
    try (OpenSlot open = new OpenSlot("--quantum", "1h", "--timeline", chart)) {
      assertEquals(
          "rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(socket())));
      assertEquals("on GPU", done("acquire", "main", one.pid()).get("place").getAsString());
      done("enqueue", "main", two.pid());
      assertComesTo("in host memory", two);
      done("acquire", "main", elsewhere.pid());
      assertEquals("on GPU", place(one));
      assertEquals(
          "on GPU", done("acquire", "main", two.pid(), "--priority", 1).get("place").getAsString());
      assertEquals("in host memory", place(one));
      assertEquals(101, two.increment());
      done("release", "main", two.pid());
      assertComesTo("on GPU", one);
      assertEquals("in host memory", done("remove", "main", two.pid()).get("place").getAsString());
      assertEquals("not in the slot", place(two));
      String table = slot("list", "main").out();
      assertTrue(table.startsWith("PID  "), table);
      assertEquals(5, slot("remove", "main", two.pid()).code());

      Call ran = open.end();
      assertEquals(0, ran.code(), ran::toString);
      assertTrue(ran.out().contains("process " + two.pid() + " SUSPENDED"), ran::toString);
    }
    assertFalse(Files.exists(socket()));
    assertTrue(Files.readString(chart).startsWith("<svg "));
    assertEquals(101, one.increment());
    assertEquals(101, elsewhere.increment());
    assertEquals(0, Call.of(machine, "resume", two.pid()).code());
    assertEquals(102, two.increment());
  }

  @Test
  void queueIsThatOfTheLastControllerAfterItsSocketWasLeft() throws Exception {
    try (OpenSlot open = new OpenSlot()) {
      done("acquire", "main", one.pid());
      assertEquals(0, open.end().code());
    }
    Files.createFile(socket()); // as a killed controller leaves it
    Call run = slot("run", "main", "--timeout", "1ms", "--json");
    assertEquals(0, run.code(), run::toString);
    try (OpenSlot again = new OpenSlot()) {
      assertEquals("on GPU", place(one));
      Call second = slot("run", "main");
      assertEquals(3, second.code(), second::toString);
      assertEquals(0, again.end().code());
    }
  }

  @Test
  void acquireThatIsCutShortLeavesTheHolder() throws Exception {
    try (OpenSlot open = new OpenSlot("--quantum", "1h")) {
      done("acquire", "main", one.pid());
      Call late = slot("acquire", "main", two.pid(), "--timeout", "300ms");
      assertEquals(3, late.code(), late::toString);
      assertTrue(late.err().contains("the time of --timeout has passed"), late::toString);
      assertTrue(late.err().contains("the wait was cancelled"), late::toString);
      // The controller sees that the caller has gone, and the process wants no GPU.
      assertTrue(
          Await.until(
              PATIENCE,
              () ->
                  JsonParser.parseString(slot("list", "main", "--json").out())
                          .getAsJsonArray()
                          .asList()
                          .stream()
                          .filter(each -> each.getAsJsonObject().get("wanted").getAsBoolean())
                          .count()
                      == 1));
      assertEquals("on GPU", place(one));
      assertEquals(101, one.increment());
      assertEquals(0, open.end().code());
    }
  }

  @Test
  void refusesWhatItCannotDo() {
    Call none = slot("acquire", "main", one.pid(), "--json");
    assertEquals(4, none.code(), none::toString);
    assertTrue(none.out().contains("NO_CONTROLLER"), none::toString);
    assertEquals(2, slot("run", "main", "--host-memory", "1GiB").code());
    assertEquals(2, slot("run", "main", "--host-memory", "much", "--images", directory).code());
    assertEquals(2, slot().code());
  }

  @Test
  void readsSizes() {
    Converters.Size size = new Converters.Size();
    assertEquals(5L << 30, size.convert("5GiB"));
    assertEquals(7, size.convert("7"));
    assertEquals(7, size.convert("7B"));
  }
}
