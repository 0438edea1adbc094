package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.NativeCalls;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.options.Timeouts;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What Java Flight Recorder tells of verbs afterwards. */
@Tag("jdk")
@SimulatedGpu
class RecordedTest {

  @TempDir Path directory;
  private final SimulatedDriver machine;
  private final GpuCheckpoints checkpoints;
  private final Counter counter;
  private final Recording recording = new Recording();

  RecordedTest(SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter) {
    this.machine = machine;
    this.checkpoints = checkpoints;
    this.counter = counter;
  }

  @BeforeEach
  void start() {
    recording.enable("dev.gpuprocess.report.Step").withoutThreshold();
    recording.enable("dev.gpuprocess.AbandonedCall").withoutThreshold();
    recording.start();
  }

  @AfterEach
  void end() {
    recording.close();
  }

  private List<RecordedEvent> events(String type) throws IOException {
    Path file = directory.resolve("recording.jfr");
    recording.dump(file);
    return RecordingFile.readAllEvents(file).stream()
        .filter(event -> event.getEventType().getName().equals(type))
        .toList();
  }

  @BeforeEach
  void awaitEarlierTests() {
    NativeCalls.awaitNoneLeftBehind();
  }

  @Test
  void everyStepIsRecordedWithItsNumbers() throws IOException {
    RunningProcess running = checkpoints.process(counter.pid()).suspend().resume();
    List<RecordedEvent> steps = events("dev.gpuprocess.report.Step");
    assertEquals(
        List.of("lock", "checkpoint", "restore", "unlock"),
        steps.stream().map(step -> step.getString("step")).toList());
    for (int i = 0; i < steps.size(); i++) {
      RecordedEvent step = steps.get(i);
      assertEquals(counter.pid(), step.getInt("pid"));
      assertEquals("done", step.getString("outcome"));
      assertEquals(running.steps().get(i).bytes(), step.getLong("bytes"));
      assertTrue(step.getDuration().compareTo(Duration.ZERO) > 0, step.toString());
    }
  }

  /** That would cost every program a fifth of a second. */
  @Test
  void flightRecorderIsLeftAloneWhereNobodyRecords() throws IOException {
    Process jvm =
        new ProcessBuilder(
                TestJvm.command(
                    Unrecorded.class,
                    machine.directory().toString(),
                    machine.stateDirectory().toString(),
                    Long.toString(counter.pid())))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    String said = new String(jvm.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals("initialized: false", said.strip());
  }

  /** Suspends and resumes in a JVM of its own. */
  public static final class Unrecorded {

    private Unrecorded() {}

    public static void main(String[] args) {
      Path machine = Path.of(args[0]);
      RunningProcess unused =
          GpuCheckpoints.builder()
              .cuda(machine)
              .stateDirectory(Path.of(args[1]))
              .build()
              .process(Integer.parseInt(args[2]))
              .suspend()
              .resume();
      System.out.println("initialized: " + FlightRecorder.isInitialized());
    }
  }

  @Test
  void aStepThatFailsIsRecordedWithItsReason() throws IOException {
    machine.faults(Fault.in("cuCheckpointProcessLock").answers(999));
    RunningProcess running = checkpoints.process(counter.pid());
    assertReason(
        ProcessUnfitException.class, ProcessUnfitException.Reason.DRIVER_ERROR, running::lock);
    assertEquals(
        List.of("DRIVER_ERROR"),
        events("dev.gpuprocess.report.Step").stream()
            .map(step -> step.getString("outcome"))
            .toList());
  }

  @Test
  void aCallThatIsLeftBehindIsCountedNamedAndRecorded() throws IOException {
    Duration haste = Duration.ofMillis(100);
    Timeouts timeouts =
        Timeouts.builder()
            .lock(haste)
            .call(Duration.ofSeconds(5))
            .transfer(Duration.ofSeconds(5))
            .build();
    RunningProcess running =
        checkpoints.toBuilder().timeouts(timeouts).build().process(counter.pid());
    machine.faults(Fault.in("cuCheckpointProcessLock").hangs());
    assertThrows(OperationTimedOutException.class, running::lock);
    assertEquals(1, GpuCheckpoints.abandonedCalls());
    String name = "gpuprocess lock " + counter.pid();
    assertTrue(
        Thread.getAllStackTraces().keySet().stream()
            .anyMatch(thread -> thread.getName().equals(name) && thread.isDaemon()),
        "no thread is called " + name);
    machine.clearFaults();
    await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    List<RecordedEvent> calls = events("dev.gpuprocess.AbandonedCall");
    assertEquals(
        List.of("lock " + counter.pid()),
        calls.stream().map(call -> call.getString("call")).toList());
    assertEquals(101, counter.increment(), "the late lock was undone");
  }
}
