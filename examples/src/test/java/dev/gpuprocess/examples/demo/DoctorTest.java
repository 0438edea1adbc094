package dev.gpuprocess.examples.demo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.fixtures.Counter;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

class DoctorTest {

  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
  private final PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8);

  private String shown() {
    return bytes.toString(StandardCharsets.UTF_8);
  }

  @Test
  @RequiresCriu
  void printsThatNothingIsMissing() {
    try (Machine machine = Machine.simulated("for a test")) {
      assertEquals(0, Doctor.run(machine.checkpoints(), List.of(), out), this::shown);
    }
    assertTrue(shown().contains("OK       libcuda: supports CUDA 13.0"), this::shown);
    assertTrue(shown().endsWith("no problems\n"), this::shown);
  }

  @Test
  @RequiresCriu
  void printsTheProblemsOfAProcess() {
    try (Machine machine = Machine.simulated("for a test");
        Counter counter = machine.on(Counter.launch()).start()) {
      List<String> args = List.of(Long.toString(counter.pid()), "/tmp");
      assertEquals(0, Doctor.run(machine.checkpoints(), args, out), this::shown);
      counter.ask("open /dev/fuse");
      assertEquals(1, Doctor.run(machine.checkpoints(), args, out), this::shown);
      assertTrue(shown().contains("PROBLEM  process " + counter.pid()), this::shown);
      assertTrue(shown().endsWith("problems: 1\n"), this::shown);
    }
  }

  @Test
  void refusesInvalidArguments() {
    try (Machine machine = Machine.simulated("for a test")) {
      assertEquals(2, Doctor.run(machine.checkpoints(), List.of("--help"), out));
      assertEquals(2, Doctor.run(machine.checkpoints(), List.of("1", "2", "3"), out));
    }
  }
}
