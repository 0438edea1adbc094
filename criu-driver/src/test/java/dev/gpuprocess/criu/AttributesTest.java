package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.Attribute;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Attributes of a process that CRIU does not restore are named, or the dump is refused. */
@Tag("slow")
@OutsideUse("A16")
class AttributesTest {

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

  private Path image() {
    return directory.resolve("image");
  }

  /** The JDK waits for the stops of single-threaded children of this JVM. */
  private Counter counter() {
    return Counter.launch().on(machine).notOurChild().start();
  }

  private static void set(Counter counter, String name) {
    Optional<String> problem = counter.set(name);
    assumeTrue(problem.isEmpty(), () -> name + ": " + problem);
  }

  @Test
  void aConfinedProcess_isRefusedBeforeItLeavesItsGpu_unlessTheLossIsAllowed() {
    try (Counter counter = counter()) {
      set(counter, "landlock");
      CriuException refused =
          assertThrows(CriuException.class, () -> checkpoints.process(counter.pid()).dump(image()));
      assertEquals(CriuException.Reason.UNSUPPORTED_RESOURCE, refused.reason());
      UnsupportedResource resource = refused.resources().get(0);
      assertEquals("landlock", resource.name());
      assertEquals("DumpOptions.allowLoss(Attribute.LANDLOCK)", resource.option());
      assertEquals(101, counter.increment());

      ProcessImage image =
          checkpoints.toBuilder()
              .allowLoss(Attribute.LANDLOCK)
              .build()
              .process(counter.pid())
              .dump(image());
      assertEquals(List.of("landlock"), image.manifest().lost());
      image.restore().resume();
      assertEquals(102, counter.increment());
    }
  }

  @Test
  void whatDoesNotConfine_isNamed() {
    try (Counter counter = counter()) {
      assertEquals(List.of(), lost(counter, image().resolveSibling("before")));
      set(counter, "keys");
      assertEquals(List.of("keyrings"), lost(counter, image()));
      assertEquals(List.of(), checkpoints.open(image().resolveSibling("before")).manifest().lost());
    }
  }

  @Test
  void optionsAndGroupsOfSockets_areWhatTheyWere() {
    try (Counter counter = counter()) {
      Optional<String> problem = counter.makeSockets();
      assumeTrue(problem.isEmpty(), problem::toString);
      String before = counter.socketOptions();
      ProcessImage image = checkpoints.process(counter.pid()).dump(image());
      assertEquals(List.of(), image.manifest().lost());
      image.restore().resume();
      assertEquals(before, counter.socketOptions());
      assertTrue(before.startsWith("12345 "), before);
    }
  }

  @Test
  void whatOnlyTheProcessCanSet_isSetAgain() {
    try (Counter counter = counter()) {
      String before = settings(counter);
      CheckpointedProcess restored = image(counter).restore();
      assertEquals(before, counter.settings(), "before the process is resumed");
      restored.resume();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void whatOnlyTheProcessCanSet_isSetAgain_inAChildOfThisJvm() {
    try (Counter counter = counter()) {
      String before = settings(counter);
      LaunchedProcess launched = image(counter).launch();
      try {
        assertEquals(before, counter.settings());
        assertEquals(101, counter.increment());
      } finally {
        Optional<LaunchedProcess.Exit> unused = launched.end(Duration.ZERO);
      }
    }
  }

  /** Sets each that this kernel has, and returns what the process reports of them. */
  private static String settings(Counter counter) {
    for (String name : List.of("seal", "policy", "bind", "personality", "merge", "mdwe")) {
      Optional<String> unused = counter.set(name);
    }
    String settings = counter.settings();
    assertTrue(settings.contains("personality=40000"), settings);
    return settings;
  }

  private ProcessImage image(Counter counter) {
    ProcessImage image = checkpoints.process(counter.pid()).dump(image());
    assertEquals(List.of(), image.manifest().lost());
    return image;
  }

  private List<String> lost(Counter counter, Path image) {
    return checkpoints.process(counter.pid()).snapshot(image).manifest().lost();
  }
}
