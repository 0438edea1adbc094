package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.MemoryGroup;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.io.IOException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The option that a refusal names lets the same command succeed. */
@SimulatedGpu(mebibytes = 1024)
record HintsTest(GpuCheckpoints machine, SimulatedDriver driver) {

  private static final int MIB = 160;

  /** Private memory of the process counts for these limits, and files of the pool do not. */
  @ParameterizedTest
  @ValueSource(strings = {"data", "group"})
  @RequiresRoot("sets limits")
  void limitOfAProcess_saveFiles(String limit) throws IOException {
    try (MemoryGroup group = MemoryGroup.create();
        Pattern process = driver.start(Pattern.launch(MIB).notOurChild())) {
      String pid = Long.toString(process.pid());
      if (limit.equals("data")) {
        ProgramRun.of("prlimit", "--pid", pid, "--data=64000000:").succeed();
      } else {
        group.add(process.pid());
        group.limit(40L << 20);
      }
      Call refused = Call.of(machine, "suspend", pid);
      assertEquals(4, refused.code(), refused::toString);
      assertTrue(
          refused.err().contains("or keep the GPU memory in files (--save-files)"), refused::err);
      Call suspended = Call.of(machine, "suspend", pid, "--save-files");
      assertEquals(0, suspended.code(), suspended::toString);
      if (limit.equals("group")) {
        group.limit(1L << 30); // the memory of a simulated GPU is charged as well
      }
      Call resumed = Call.of(machine, "resume", pid);
      assertEquals(0, resumed.code(), resumed::toString);
      assertEquals("ok %s bytes".formatted((long) MIB << 20), process.verify());
    }
  }
}
