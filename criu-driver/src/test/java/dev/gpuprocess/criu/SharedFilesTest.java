package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files that are mapped as shared memory come back with the content that fits the memory. */
@Tag("slow")
@OutsideUse("A16")
class SharedFilesTest {

  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;
  private Path memory;
  private Path disk;

  @BeforeEach
  void buildMachine() throws IOException {
    RealCriu.assume();
    machine = SimulatedDriver.builder().memory(1L << 30).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(directory.resolve("state"))
            .build();
    memory = Files.createTempFile(Path.of("/dev/shm"), "ring", "");
    Files.delete(memory);
    disk = directory.resolve("table");
  }

  @AfterEach
  void removeMachine() throws IOException {
    if (machine != null) {
      machine.close();
      Files.deleteIfExists(memory);
    }
  }

  private Path image() {
    return directory.resolve("image");
  }

  private static void kill(Counter counter) {
    Workload.end(ProcessIdentity.of(counter.pid()).orElseThrow());
  }

  @Test
  void aSnapshot_bringsSharedMemoryBack_asItWas_alsoWhenTheFileIsGone() throws IOException {
    try (Counter counter = Counter.start(machine)) {
      counter.share(memory);
      assertEquals("1 1", counter.incrementShared());
      ProcessImage image = checkpoints.process(counter.pid()).snapshot(image());
      assertEquals(List.of(), image.manifest().lost());
      assertEquals("2 2", counter.incrementShared());

      kill(counter);
      image.restore().resume();
      assertEquals("2 2", counter.incrementShared());

      kill(counter);
      Files.delete(memory);
      image.restore().resume();
      assertEquals("2 2", counter.incrementShared());
      assertEquals(
          "rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(memory)));

      kill(counter);
      image.restore().resume();
      assertEquals("2 2", counter.incrementShared());
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void aDump_bringsAFileOnADiskBack_andSparesAnotherFileOfItsName() throws IOException {
    try (Counter counter = Counter.start(machine)) {
      counter.share(disk);
      assertEquals("1 1", counter.incrementShared());
      ProcessImage image = checkpoints.process(counter.pid()).suspend().dump(image());
      byte[] other = new byte[1 << 16];
      other[100] = 1;
      Files.delete(disk);
      Files.write(disk, other);
      ImageException refused = assertThrows(ImageException.class, image::restore);
      assertTrue(refused.getMessage().contains(disk + " cannot be put back"), refused::getMessage);
      assertEquals(1, Files.readAllBytes(disk)[100]);

      Files.delete(disk);
      image.restore().resume();
      assertEquals("2 2", counter.incrementShared());
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void memoryThatAnotherProcessShares_isRefused_unlessTheLossIsAllowed() {
    try (Counter counter = Counter.start(machine);
        Counter other = Counter.start(machine)) {
      counter.share(memory);
      other.share(memory);
      CriuException refused =
          assertThrows(
              CriuException.class, () -> checkpoints.process(counter.pid()).snapshot(image()));
      assertEquals("shared-files", refused.resources().get(0).name());
      assertTrue(refused.getMessage().contains("process " + other.pid()), refused::getMessage);
      assertEquals("1 1", counter.incrementShared());

      DumpOptions allowed = DumpOptions.builder().allowLoss(Attribute.SHARED_FILES).build();
      ProcessImage image = checkpoints.process(counter.pid()).snapshot(image(), allowed);
      assertEquals(List.of("shared-files"), image.manifest().lost());
      assertFalse(
          image.manifest().files().keySet().stream().anyMatch(file -> file.contains("shared-")));
      assertEquals("2 2", counter.incrementShared());
    }
  }

  @Test
  void memoryThatAnotherProcessUsesNow_isNotOverwritten() {
    try (Counter counter = Counter.start(machine);
        Counter other = Counter.start(machine)) {
      counter.share(memory);
      String unused = counter.incrementShared();
      ProcessImage image = checkpoints.process(counter.pid()).suspend().dump(image());
      other.share(memory);
      ImageException refused = assertThrows(ImageException.class, image::restore);
      assertTrue(refused.getMessage().contains("process " + other.pid()), refused::getMessage);
      assertEquals("1 1", other.incrementShared());
    }
  }
}
