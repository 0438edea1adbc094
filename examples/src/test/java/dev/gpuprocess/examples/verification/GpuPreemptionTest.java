package dev.gpuprocess.examples.verification;

import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.examples.bus.Size;
import dev.gpuprocess.examples.demo.Machine;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The short form of {@code bin/lab/gpu-preempt}, on a simulated GPU. */
class GpuPreemptionTest {

  @Test
  @Timeout(240) // a run of some seconds, alone and preempted
  void inferencePreemptsTraining() throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    boolean isEqual;
    try (Machine machine = Machine.simulated("for a test")) {
      PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8);
      isEqual = new GpuPreemption(machine, new Size(8), out).run(2);
    }
    String text = bytes.toString(StandardCharsets.UTF_8);
    assertTrue(
        isEqual && text.contains("preempted: 2 of 2 times") && text.contains("losses equal"), text);
  }
}
