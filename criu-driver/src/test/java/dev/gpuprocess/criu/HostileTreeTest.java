package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.criu.internal.preflight.Preflight;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A job that has more of everything than anybody needs costs its controller little. */
@OutsideUse("D5")
class HostileTreeTest {

  private static final int MANY_NAMES = 300;
  private static final int MANY_DESCRIPTORS = 5000;
  private static final int MANY_MAPPINGS = 30_000;
  private static final int LONGEST_MESSAGE = 10_000;
  private static final int LONG = 200;

  @TempDir Path directory;

  private Path longName() throws IOException {
    Path deep = Files.createDirectory(directory.resolve("d".repeat(LONG)));
    return deep.resolve("f".repeat(LONG));
  }

  private static void hold(Workload workload, String what) {
    String held = workload.ask(what);
    assertFalse(held.startsWith("error"), () -> what + ": " + held);
  }

  @Test
  void findings_manyRemovedNames_areCountedAndNotAllListed() throws IOException {
    try (Workload idle = Workload.idle()) {
      hold(idle, "many-renamed " + longName() + " " + MANY_NAMES);
      List<Finding> problems =
          Preflight.of(
                  ProcessIdentity.of(idle.pid()).orElseThrow(), DumpOptions.ofDefaults(), false)
              .stream()
              .filter(Finding::isProblem)
              .toList();
      assertTrue(problems.size() < MANY_NAMES / 2, () -> problems.size() + " problems");
      Finding last = problems.get(problems.size() - 1);
      int more = MANY_NAMES - (problems.size() - 1);
      assertTrue(last.what().contains(more + " more"), last::toString);
    }
  }

  @Test
  void dump_manyRemovedNames_messageIsShort() throws IOException {
    RealCriu.assume();
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      hold(counter, "many-renamed " + longName() + " " + MANY_NAMES);
      try (CheckpointedProcess suspended = checkpoints(machine).process(counter.pid()).suspend()) {
        CriuException refused =
            assertReason(
                CriuException.class,
                CriuException.Reason.UNSUPPORTED_RESOURCE,
                () -> suspended.dump(directory.resolve("image")));
        int length = String.valueOf(refused.getMessage()).length();
        assertTrue(length < LONGEST_MESSAGE, () -> length + " characters");
      }
      assertEquals(101, counter.increment());
    }
  }

  private GpuCheckpoints checkpoints(SimulatedDriver machine) {
    return GpuCheckpoints.builder()
        .cuda(machine.directory())
        .criu(new RpcCriuDriver())
        .stateDirectory(directory.resolve("state"))
        .build();
  }

  @Test
  void dump_scanOutlastsTheDeadline_endsBeforeTheJobIsTouched() {
    RealCriu.assume();
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      hold(counter, "many /dev/null " + MANY_DESCRIPTORS);
      DumpOptions hasty = DumpOptions.builder().deadline(Duration.ofMillis(1)).build();
      try (CheckpointedProcess suspended = checkpoints(machine).process(counter.pid()).suspend()) {
        OperationTimedOutException late =
            assertThrows(
                OperationTimedOutException.class,
                () -> suspended.dump(directory.resolve("image"), hasty));
        assertTrue(late.getMessage().contains("nothing was touched"), late.getMessage());
        assertFalse(Files.exists(directory.resolve("image")));
      }
      assertEquals(101, counter.increment());
    }
  }

  /** The images need more memory than such a JVM has. */
  @Test
  void preflight_manyMappings_fitsIntoLittleMemory() throws Exception {
    try (Workload idle = Workload.idle()) {
      Path file = longName();
      Files.writeString(file, "x");
      hold(idle, "many-mapped " + file + " " + MANY_MAPPINGS);
      Process jvm =
          new ProcessBuilder(
                  TestJvm.command(
                      List.of("-Xmx24m"), HostileTreeTest.class, Long.toString(idle.pid())))
              .redirectErrorStream(true)
              .start();
      String said = new String(jvm.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertTrue(jvm.waitFor(30, SECONDS), "it ends");
      assertTrue(said.contains("looked"), said);
    }
  }

  /** Looks at a process. */
  public static void main(String[] args) {
    Preflight.of(
        ProcessIdentity.of(Long.parseLong(args[0])).orElseThrow(), DumpOptions.ofDefaults(), false);
    System.out.println("looked");
  }
}
