package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A dump fails, and its partial image cannot be removed, as the file system is read-only. */
@RequiresRoot("mounts a file system")
@OutsideUse("A6")
@SimulatedGpu
class FailedDumpTest {

  private final SimulatedDriver machine;
  private final GpuCheckpoints checkpoints;
  private final Counter counter;

  FailedDumpTest(SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter) {
    this.machine = machine;
    this.checkpoints = checkpoints;
    this.counter = counter;
  }

  @TempDir Path directory;
  private TmpFs images;

  @BeforeEach
  void failADump() throws IOException {
    images = TmpFs.mount(directory, "size=512m,mode=0700");
    CriuDriver criu = mock(CriuDriver.class);
    when(criu.dump(any(), any()))
        .thenAnswer(
            call -> {
              images.remount("ro");
              throw new ImageException(
                  ImageException.Reason.UNWRITABLE,
                  "it cannot be dumped",
                  Failure.of("dump", counter.pid()),
                  null);
            });
    RunningProcess running = checkpoints.toBuilder().criu(criu).build().process(counter.pid());
    assertThrows(ImageException.class, () -> running.dump(directory.resolve("image")));
    assertEquals(1, halves().size());
    assertEquals(1, entries().size(), "a recovery by another JVM needs it");
  }

  @AfterEach
  void unmount() {
    images.close();
  }

  private static List<Path> files(Path directory, String suffix) throws IOException {
    try (Stream<Path> files = Files.list(directory)) {
      return files.filter(file -> file.toString().endsWith(suffix)).toList();
    }
  }

  private List<Path> halves() throws IOException {
    return files(directory, ".partial");
  }

  private List<Path> entries() {
    return JournalFiles.in(machine.stateDirectory());
  }

  @Test
  void halfImageAndItsEntryGoByThemselves() throws IOException {
    images.remount("rw");
    await().atMost(30, SECONDS).until(() -> entries().isEmpty());
    assertEquals(List.of(), halves());
    assertEquals(101, counter.increment());
  }

  @Test
  void recoveryRemovesTheHalfImageAndItsEntry() throws IOException {
    images.remount("rw");
    assertEquals(List.of(), checkpoints.recover());
    assertEquals(List.of(), halves());
    assertEquals(List.of(), entries());
    assertEquals(101, counter.increment());
  }
}
