package dev.gpuprocess.examples.verification;

import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.examples.bus.Size;
import dev.gpuprocess.examples.demo.Machine;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** The short form of {@code bin/lab/gpu-preempt}, on a simulated GPU. */
class GpuPreemptionTest {

  @Test
  void inferencePreemptsTraining() throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    boolean isEqual;
    try (Machine machine = Machine.simulated("for a test")) {
      PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8);
      isEqual = new GpuPreemption(machine, new Size(8), out).run(3);
    }
    String text = bytes.toString(StandardCharsets.UTF_8);
    assertTrue(
        isEqual && text.contains("preempted: 3 of 3 times") && text.contains("losses equal"), text);
  }
}
