package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A JVM that is prepared for its first verbs. */
@RequiresRoot("dumps")
class PrepareTest {

  @TempDir Path directory;

  private List<Path> entries() throws IOException {
    Path state = directory.resolve("state");
    try (Stream<Path> files = Files.list(state)) {
      return files
          .filter(file -> file.toString().endsWith(".process") || file.toString().endsWith(".job"))
          .toList();
    }
  }

  @Test
  void firstVerbsLoadFewClasses_andNothingIsLeftOfThePreparation() throws Exception {
    RealCriu.assume();
    try (SimulatedDriver machine = SimulatedDriver.builder().memory(1L << 30).create();
        Counter counter = Counter.start(machine)) {
      Path temporary = Files.createDirectory(directory.resolve("tmp"));
      List<String> command =
          TestJvm.command(
              List.of("-Djava.io.tmpdir=" + temporary),
              FirstVerbs.class,
              machine.directory().toString(),
              directory.resolve("state").toString(),
              Long.toString(counter.pid()),
              directory.resolve("image").toString());
      Process jvm =
          new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
      String said = new String(jvm.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
      assertEquals(0, jvm.waitFor(), said);
      String[] loaded = said.split(" ");
      int prepared = Integer.parseInt(loaded[0]);
      int later = Integer.parseInt(loaded[1]);
      assertTrue(later * 12 < prepared, said);
      assertEquals(List.of(), entries());
      try (Stream<Path> left = Files.list(temporary)) {
        assertEquals(List.of(), left.filter(file -> file.toString().contains("prepare")).toList());
      }
    }
  }

  @Test
  void whatIsMissingIsSaid() throws IOException {
    Path empty = Files.createDirectory(directory.resolve("no-driver"));
    GpuCheckpoints checkpoints =
        GpuCheckpoints.builder().cuda(empty).stateDirectory(directory.resolve("state")).build();
    Set<Integer> before = Set.copyOf(ProcFs.descendants(ProcessHandle.current().pid()));
    assertThrows(MachineUnfitException.class, checkpoints::prepare);
    assertEquals(before, Set.copyOf(ProcFs.descendants(ProcessHandle.current().pid())));
  }
}
