package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A CRIU driver that throws an error when the image is complete, and the process lives. */
@SimulatedGpu
class DumpErrorTest {

  private final Error error = new StackOverflowError("of the CRIU driver");

  private final class ErringCriu extends StubCriu {

    @Override
    public DumpReport dump(DumpRequest request, DumpListener listener) {
      listener.postDump();
      throw error;
    }
  }

  @Test
  void imageOfAProcessThatLivesIsRemoved(
      SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter, @TempDir Path directory)
      throws Exception {
    Path image = directory.resolve("image");
    RunningProcess running =
        checkpoints.toBuilder().criu(new ErringCriu()).build().process(counter.pid());
    assertSame(error, assertThrows(Error.class, () -> running.dump(image)));
    assertFalse(Files.exists(image), "it would be restored beside the process");
    assertEquals(List.of(), JournalFiles.in(machine.stateDirectory()));
    assertEquals(101, counter.increment());
  }
}
