package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A CRIU driver that throws an error when the image is complete, and the process lives. */
@SimulatedGpu
class DumpErrorTest {

  @Test
  void imageOfAProcessThatLivesIsRemoved(
      SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter, @TempDir Path directory)
      throws Exception {
    Error error = new StackOverflowError("of the CRIU driver");
    CriuDriver criu = mock(CriuDriver.class);
    when(criu.version()).thenReturn("4.2.1");
    when(criu.dump(any(), any()))
        .thenAnswer(
            call -> {
              call.<DumpListener>getArgument(1).postDump();
              throw error;
            });
    Path image = directory.resolve("image");
    RunningProcess running = checkpoints.toBuilder().criu(criu).build().process(counter.pid());
    assertSame(error, assertThrows(Error.class, () -> running.dump(image)));
    assertFalse(Files.exists(image), "it would be restored beside the process");
    assertEquals(List.of(), JournalFiles.in(machine.stateDirectory()));
    assertEquals(101, counter.increment());
  }
}
