package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A controller with too many files open knows nothing of its processes, and does not say it does.
 */
class FullTableTest {

  private static final int DESCRIPTORS = 128;

  @TempDir Path directory;

  private List<String> run(SimulatedDriver machine, Counter counter) throws Exception {
    Process controller =
        new ProcessBuilder(
                TestJvm.commandBy(
                    List.of("sh", "-c", "ulimit -n " + DESCRIPTORS + "; exec \"$@\"", "sh"),
                    FullTable.class,
                    machine.directory().toString(),
                    directory.resolve("state").toString(),
                    Long.toString(counter.pid())))
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    try {
      List<String> said =
          new String(controller.getInputStream().readAllBytes(), StandardCharsets.UTF_8)
              .lines()
              .filter(line -> line.contains(": "))
              .toList();
      assertTrue(controller.waitFor(30, SECONDS), "it ends");
      assertEquals(0, controller.exitValue(), said::toString);
      return said;
    } finally {
      controller.destroyForcibly();
    }
  }

  private static void assertThrown(String what, String said) {
    assertTrue(said.matches(what + ": (ProcessUnreadable|StateDirectory)Exception: .*"), said);
    assertTrue(said.contains("RLIMIT_NOFILE"), said);
  }

  @Test
  @OutsideUse("A6")
  void close_tableIsFull_throwsAndKeepsTheEntryUntilItGoesThrough() throws Exception {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      List<String> said = run(machine, counter);
      assertEquals(15, said.size(), said::toString);
      assertThrown("close suspended", said.get(1));
      assertThrown("inspect", said.get(2));
      assertThrown("identity", said.get(3));
      assertTrue(said.get(4).startsWith("recover: StateDirectoryException: "), said.get(4));
      assertTrue(said.get(4).contains("RLIMIT_NOFILE"), said.get(4));
      assertEquals(
          List.of("entries: 1", "state: CHECKPOINTED", "close again: returned", "state: RUNNING"),
          said.subList(5, 9));
      assertThrown("close locked", said.get(9));
      assertEquals(
          List.of(
              "entries: 1",
              "state: LOCKED",
              "close again: returned",
              "state: RUNNING",
              "entries: 0"),
          said.subList(10, 15));
      assertEquals(101, counter.increment());
    }
  }
}
