package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.ProcFs;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A JVM that becomes the parent of the process that it has restored, without having started it. The
 * only thread of the process makes system calls all the same.
 */
@Tag("slow")
class AdoptedProcessTest {

  private static final String DONE = "settings are what they were";

  @TempDir Path directory;

  /**
   * What the JVM does.
   *
   * @param args a directory
   */
  public static void main(String[] args) {
    Path directory = Path.of(args[0]);
    try (SimulatedDriver machine = SimulatedDriver.builder().memory(1L << 30).create();
        Counter counter = Counter.launch().on(machine).notOurChild().start()) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(directory.resolve("state"))
              .build();
      for (String name : List.of("policy", "personality")) {
        Optional<String> unused = counter.set(name);
      }
      String before = counter.settings();
      for (int round = 1; round <= 2; round++) {
        Path image = directory.resolve("image" + round);
        assertEquals(
            List.of(), checkpoints.process(counter.pid()).dump(image).manifest().lost(), before);
        checkpoints.open(image).restore().resume();
        assertEquals(
            ProcessHandle.current().pid(), ProcFs.stat(counter.pid()).orElseThrow().parent());
        assertEquals(before, counter.settings());
        assertEquals(100 + round, counter.increment());
      }
      System.out.println(before.contains("personality=40000") ? DONE : before);
    }
    System.exit(0);
  }

  private void assertKeepsSettings(List<String> prefix) throws Exception {
    RealCriu.assume();
    TestJvm.assertEndsSaying(
        DONE, TestJvm.commandBy(prefix, AdoptedProcessTest.class, directory.toString()));
  }

  @Test
  void byTheFirstProcessOfAPidNamespace() throws Exception {
    InitTest.assumePidNamespaces();
    assertKeepsSettings(TestJvm.inPidNamespace());
  }

  @Test
  void byAChildSubreaper() throws Exception {
    assertKeepsSettings(InitTest.AS_SUBREAPER);
  }
}
