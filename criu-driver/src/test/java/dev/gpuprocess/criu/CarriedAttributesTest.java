package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.fixtures.AttributeProcess;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Attributes that were lost or refused until a run of random attributes found them. */
@Tag("slow")
class CarriedAttributesTest {

  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;

  @BeforeEach
  void buildMachine() {
    RealCriu.assume();
    machine = SimulatedDriver.builder().create();
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

  private AttributeProcess start(String attribute) throws Exception {
    AttributeProcess process =
        AttributeProcess.start(
            machine, Files.createDirectory(directory.resolve("files")), List.of(attribute));
    if (process.impossible().isPresent()) {
      process.close();
    }
    assumeTrue(process.impossible().isEmpty(), () -> process.impossible().orElse(""));
    return process;
  }

  @ParameterizedTest
  @ValueSource(strings = {"tree-zombie", "mlock-future", "socket-filter"})
  void comesBackAsItWas(String attribute) throws Exception {
    try (AttributeProcess process = start(attribute)) {
      List<String> before = process.report(process.pid()).orElseThrow();
      ProcessImage image = checkpoints.process(process.pid()).dump(directory.resolve("image"));
      assertEquals(List.of(), image.manifest().lost());
      long restored = image.resume().pid();
      try {
        assertEquals(before, process.report(restored).orElseThrow());
      } finally {
        ProcessHandle.of(restored).ifPresent(ProcessHandle::destroyForcibly);
      }
    }
  }

  /** As of a controller in a container, beside processes that were started with higher limits. */
  @Test
  void limitsThatAreLoweredByTheController_areNamed() throws Exception {
    String drop = "--bounding-set=-sys_resource";
    assumeTrue(ProgramRun.of("setpriv", drop, "true").run().exit() == 0, "no setpriv");
    try (AttributeProcess process = start("core-filter")) {
      checkpoints.process(process.pid()).dump(directory.resolve("image"));
      List<String> command =
          TestJvm.commandBy(
              List.of("setpriv", drop, "prlimit", "--sigpending=77:77"),
              CarriedAttributesTest.class,
              machine.directory().toString(),
              directory.toString());
      TestJvm.assertEndsSaying("Max pending signals is 77", command);
    }
  }

  /**
   * Restores a process with lower limits.
   *
   * @param args the directories of the machine and of the image
   */
  public static void main(String[] args) {
    Path directory = Path.of(args[1]);
    List<String> notes = new ArrayList<>();
    StepListener listener =
        new StepListener() {
          @Override
          public void finished(Step step) {
            notes.add(step.note());
          }
        };
    long restored =
        GpuCheckpoints.builder()
            .cuda(Path.of(args[0]))
            .stateDirectory(directory.resolve("state"))
            .listener(listener)
            .build()
            .open(directory.resolve("image"))
            .resume()
            .pid();
    ProcessHandle.of(restored).ifPresent(ProcessHandle::destroyForcibly);
    System.out.println(
        Pattern.compile("Max pending signals is \\d+")
            .matcher(notes.toString())
            .results()
            .map(MatchResult::group)
            .findFirst()
            .orElse(notes.toString()));
  }

  @ParameterizedTest
  @CsvSource({"eventfd-semaphore,is a semaphore"})
  void isRefusedWhileTheProcessRuns(String attribute, String why) throws Exception {
    try (AttributeProcess process = start(attribute)) {
      List<String> before = process.report(process.pid()).orElseThrow();
      CriuException refused =
          assertThrows(
              CriuException.class,
              () ->
                  checkpoints.toBuilder()
                      .allowLoss(Attribute.values())
                      .build()
                      .process(process.pid())
                      .dump(directory.resolve("image")));
      assertTrue(refused.getMessage().contains(why), refused::getMessage);
      assertEquals(before, process.report(process.pid()).orElseThrow());
    }
  }
}
