package dev.gpuprocess.criu;

import static java.util.concurrent.TimeUnit.MINUTES;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** State that CRIU does not dump is restored by this library. */
@OutsideUse("A16")
class CarriedTest {

  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;

  @BeforeEach
  void buildMachine() {
    RealCriu.assume();
    machine = SimulatedDriver.builder().memory(1L << 30).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(directory.resolve("state"))
            .build();
  }

  @AfterEach
  void removeMachine() {
    if (machine != null) {
      machine.close();
    }
  }

  private static String text(long pid, String file) {
    return ProcFs.read(pid, file).orElseThrow().strip();
  }

  @Test
  void whatATaskIsAllowed_isWhatItWas() {
    try (Counter counter = Counter.start(machine)) {
      String pid = Long.toString(counter.pid());
      ProgramRun.of("taskset", "-cp", "0", pid).succeed();
      ProgramRun.of("ionice", "-c", "2", "-n", "7", "-p", pid).succeed();
      ProgramRun.of("sh", "-c", "echo 123456 > /proc/$0/timerslack_ns", pid).succeed();
      ProgramRun.of("sh", "-c", "echo 0x7 > /proc/$0/coredump_filter", pid).succeed();
      String io = ProgramRun.of("ionice", "-p", pid).succeed();
      assertTrue(io.contains("7"), io);
      ProcessImage image = checkpoints.process(counter.pid()).suspend().dump(image());
      image.restore().resume();
      assertEquals("0", ProcFs.status(counter.pid()).get("Cpus_allowed_list"));
      assertEquals(io, ProgramRun.of("ionice", "-p", pid).succeed());
      assertEquals("123456", text(counter.pid(), "timerslack_ns"));
      assertEquals("00000007", text(counter.pid(), "coredump_filter"));
      assertEquals(101, counter.increment());
    }
  }

  private Path image() {
    return directory.resolve("image");
  }

  /** Each JVM that starts removes the files of pids that do not exist. */
  @ParameterizedTest
  @ValueSource(strings = {"-XX:+UsePerfData", "-XX:-UsePerfData"})
  void aJvmIsRestoredAfterOtherJvmsStarted(String flag) throws Exception {
    Path count = directory.resolve("count");
    Path output = directory.resolve("output");
    List<String> command =
        new ArrayList<>(
            List.of("setsid", TestJvm.java(), flag, "-XX:TieredStopAtLevel=1", "-Xmx64m", "-cp"));
    command.addAll(List.of(TestJvm.classPath(), JvmTarget.class.getName()));
    command.addAll(List.of(machine.libcuda().toString(), count.toString()));
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().putAll(machine.environment());
    Process jvm =
        builder
            .redirectInput(Path.of("/dev/null").toFile())
            .redirectOutput(output.toFile())
            .redirectError(output.toFile())
            .start();
    ProcessIdentity restored = null;
    try {
      await("the JVM to count").atMost(3, MINUTES).until(() -> count(count) > 0 || !jvm.isAlive());
      assertTrue(jvm.isAlive(), () -> "the JVM ended: " + count(output));
      Path counters = counters(jvm.pid());
      assertEquals(flag.contains("+"), Files.exists(counters));
      DumpOptions options = DumpOptions.builder().criu(c -> c.fileLocks(true)).build();
      ProcessImage image = checkpoints.process(jvm.pid()).suspend().dump(image(), options);
      jvm.waitFor();
      ProgramRun.of(TestJvm.java(), "-version").succeed();
      assertFalse(Files.exists(counters), "a JVM removes what it takes for left over");
      long before = count(count);

      image.restore().resume();
      restored = ProcessIdentity.of(jvm.pid()).orElseThrow();
      Workload.await(() -> count(count) > before, "the JVM to count on");
      assertEquals(flag.contains("+"), Files.exists(counters));
    } finally {
      jvm.destroyForcibly().waitFor();
      if (restored != null) {
        Workload.end(restored);
        Files.deleteIfExists(counters(jvm.pid()));
      }
    }
  }

  private static Path counters(long pid) {
    return Path.of("/tmp", "hsperfdata_" + System.getProperty("user.name"), Long.toString(pid));
  }

  private static long count(Path file) {
    try {
      String text = Files.exists(file) ? Files.readString(file).strip() : "";
      return text.matches("\\d+") ? Long.parseLong(text) : 0;
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }
}
