package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.cuda.jnr.LibCuda;
import dev.gpuprocess.cuda.jnr.LibNvml;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.HandedOver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.progress.Step;
import dev.gpuprocess.progress.StepListener;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A process that changes its own memory while it is suspended keeps it as it made it. */
@RequiresRoot("traces the process")
class ChangingMemoryTest {

  private static final int MEBIBYTES = 16;
  private static final String PATTERN = "ok " + ((long) MEBIBYTES << 20) + " bytes";
  private static final String UNCHANGED = "ok 0";

  /** Children inherit the device files of a CUDA process. */
  private static final DumpOptions OPTIONS =
      DumpOptions.builder().releaseInheritedGpu(true).build();

  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;
  private Counter job;

  @BeforeEach
  void start() {
    RealCriu.assume();
    machine = SimulatedDriver.builder().memory(1L << 30).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(LibCuda.in(machine.directory()), LibNvml.in(machine.directory()))
            .stateDirectory(directory.resolve("state"))
            .build();
    job = Counter.launch(MEBIBYTES).on(machine).notOurChild().start();
  }

  @AfterEach
  void end() {
    if (job != null) {
      job.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  private enum Verb {
    SNAPSHOT,
    DUMP_AND_CONTINUE,
    DUMP
  }

  private Path image() {
    return directory.resolve("image");
  }

  /** Does a verb, and has the process asked something at the beginning of its steps. */
  private ProcessImage image(Verb verb, Map<String, List<String>> questions) {
    GpuCheckpoints asking =
        checkpoints.toBuilder()
            .listener(
                new StepListener() {
                  @Override
                  public void started(String step, int pid) {
                    questions.getOrDefault(step, List.of()).forEach(job::ask);
                  }
                })
            .build();
    ProcessImage image;
    switch (verb) {
      case SNAPSHOT -> image = asking.process(job.pid()).snapshot(image(), OPTIONS);
      case DUMP_AND_CONTINUE -> {
        var suspended = asking.process(job.pid()).suspend();
        image = suspended.dump(image(), OPTIONS.toBuilder().leaveRunning(true).build());
        suspended.resume();
      }
      default -> {
        image = asking.process(job.pid()).suspend().dump(image(), OPTIONS);
        image.restore().resume();
      }
    }
    return image;
  }

  private static Step handOver(ProcessImage image) {
    return image.steps().stream()
        .filter(each -> each.name().equals("hand over"))
        .findFirst()
        .orElseThrow();
  }

  private static void assertHandedOver(ProcessImage image) {
    assertFalse(handOver(image).note().contains("CRIU"), handOver(image).note());
    assertTrue(handOver(image).bytes() >= (long) MEBIBYTES << 20, handOver(image).toString());
  }

  private void assertIsWhole() {
    assertEquals(PATTERN, job.verify());
    assertEquals(UNCHANGED, job.churned());
    for (int pid : ProcFs.tree(Math.toIntExact(job.pid()))) {
      assertEquals(List.of(), HandedOver.of(pid), "what process " + pid + " maps");
    }
  }

  private void assertIsWholeFromItsImage(ProcessImage image) {
    job.kill();
    assertTrue(job.awaitExit(Duration.ofSeconds(30)), "its pid is free");
    image.restore().resume();
    assertIsWhole();
  }

  @ParameterizedTest
  @EnumSource
  void sharedMemoryStaysShared(Verb verb) {
    ProcessImage image =
        image(
            verb,
            Map.of("checkpoint", List.of("area private 8"), "hand over", List.of("area shared")));
    assertHandedOver(image);
    assertIsWhole();
    assertIsWholeFromItsImage(image);
  }

  @ParameterizedTest
  @EnumSource
  void memoryThatGoesAwayIsNotMissed(Verb verb) {
    ProcessImage image =
        image(
            verb,
            Map.of("checkpoint", List.of("area private 8"), "hand over", List.of("area gone")));
    assertHandedOver(image);
    assertIsWhole();
    assertIsWholeFromItsImage(image);
  }

  @ParameterizedTest
  @EnumSource
  void whatTheProcessAllocatesStaysItsOwn(Verb verb) {
    ProcessImage image = image(verb, Map.of("checkpoint", List.of("area private 28")));
    assertHandedOver(image);
    assertIsWhole();
    long worker = Long.parseLong(job.ask("area worker"));

    ProcessImage next = checkpoints.process(job.pid()).snapshot(directory.resolve("next"), OPTIONS);

    assertHandedOver(next);
    assertIsWhole();
    assertTrue(ProcessHandle.of(worker).isPresent(), "its child lives");
  }

  /** It has a copy of all that its parent maps at that moment. */
  @ParameterizedTest
  @EnumSource
  void aChildThatIsForkedWhileItsParentIsDumpedHasMemoryOfItsOwn(Verb verb) {
    ProcessImage image = image(verb, Map.of("dump", List.of("area private 4", "area worker")));
    assertHandedOver(image);
    if (verb != Verb.DUMP) {
      assertIsWhole();
    }

    ProcessImage next = checkpoints.process(job.pid()).snapshot(directory.resolve("next"), OPTIONS);

    assertHandedOver(next);
    assertIsWhole();
  }

  @Test
  void whereAnotherProcessHasTheSameMemoryNothingIsHandedOver() {
    ProcessImage image =
        image(Verb.SNAPSHOT, Map.of("checkpoint", List.of("area private 8", "area writer")));
    assertIsWhole();
    assertTrue(handOver(image).note().contains("has the same memory"), handOver(image).note());
  }

  @Test
  void whatTheDriverWasNotSeenToMapIsDumpedByCriu() {
    GpuCheckpoints alone = checkpoints.toBuilder().populateAhead(false).build();
    ProcessImage image = alone.process(job.pid()).suspend().dump(image(), OPTIONS);
    assertTrue(handOver(image).note().startsWith("CRIU dumps it: "), handOver(image).note());
    image.restore().resume();
    assertIsWhole();
  }
}
