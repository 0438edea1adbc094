package dev.gpuprocess.cuda;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A call of the simulated driver ends when it was served, or is not made at all. */
class FewDescriptorsTest {

  private static final int DESCRIPTORS = 128;
  private static final Duration TIME = Duration.ofMillis(100);

  /** What the call answered, and what state the process is in when it is done. */
  private static String lockWith(int descriptors) throws Exception {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      ProcessBuilder builder =
          new ProcessBuilder(
                  TestJvm.commandBy(
                      List.of("prlimit", "--nofile=" + DESCRIPTORS),
                      FewDescriptors.class,
                      machine.directory().toString(),
                      Long.toString(counter.pid()),
                      Integer.toString(descriptors)))
              .redirectError(ProcessBuilder.Redirect.DISCARD);
      // The machine's own faults need descriptors to be read.
      builder
          .environment()
          .put("LIBCUDA_SIM_FAULTS", "cuCheckpointProcessLock during hang=" + TIME.toMillis());
      Process caller = builder.start();
      try {
        String said =
            new String(caller.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
        assertTrue(caller.waitFor(30, SECONDS), "it ends");
        // Asked from here: the answer comes after all that the caller has begun.
        return said + " " + LibCuda.in(machine.directory()).getState((int) counter.pid()).value();
      } finally {
        caller.destroyForcibly();
      }
    }
  }

  @Test
  void lock_fewDescriptorsLeft_isServedToTheEndOrNotMade() throws Exception {
    for (int descriptors = 0; descriptors < 3; descriptors++) {
      String said = lockWith(descriptors);
      assertTrue(List.of("304 RUNNING", "0 LOCKED").contains(said), descriptors + " left: " + said);
    }
    assertEquals("0 LOCKED", lockWith(3));
  }
}
