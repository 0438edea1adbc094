package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.report.RecoveryOutcome;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A controller is killed in the middle of a dump; recovery finds the partial image in any
 * directory.
 */
@OutsideUse("A21")
class HalfImageTest {

  @TempDir Path directory;

  @ParameterizedTest
  @ValueSource(strings = {"image", "image/x/..", "link/../image", "not/yet/there/image"})
  void recover_afterAKillInADump_findsTheHalfImage(String name) throws Exception {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      Path elsewhere = Files.createDirectories(directory.resolve("elsewhere/deep"));
      Files.createSymbolicLink(machine.images().resolve("link"), elsewhere);
      DyingDumper.run(machine, subject, machine.images() + "/" + name);
      List<Recovered> found = machine.checkpoints().recover();
      assertEquals(List.of(RecoveryOutcome.SUSPENDED), outcomes(found));
      CheckpointedProcess suspended = Objects.requireNonNull(found.get(0).suspended());
      suspended.resume();
      assertEquals(Optional.empty(), subject.fault());
      assertEquals(List.of(), halves(directory));
      assertEquals(List.of(), SimulatedMachine.names(machine.temporary()));
    }
  }

  private static List<RecoveryOutcome> outcomes(List<Recovered> found) {
    return found.stream().map(Recovered::outcome).toList();
  }

  private static List<Path> halves(Path below) throws Exception {
    try (var files = Files.walk(below)) {
      return files.filter(file -> file.toString().endsWith(".partial")).toList();
    }
  }
}
