package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Stranger;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Another user can swap the images in a directory, but not change their content. */
@RequiresRoot("restores below a directory of another user")
class HostileImagePlaceTest {

  @TempDir Path directory;

  @Test
  void imageInADirectoryOfAnotherUserIsRestoredOnlyIfItIsTheExpectedOne() {
    RealCriu.assume();
    try (SimulatedDriver machine = SimulatedDriver.builder().memory(1L << 30).create();
        Stranger stranger = Stranger.create();
        Counter counter = Counter.start(machine)) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(directory.resolve("state"))
              .build();
      final ProcessIdentity process = ProcessIdentity.of(counter.pid()).orElseThrow();
      Path place = stranger.home().resolve("image");
      checkpoints.process(counter.pid()).suspend().dump(place);

      ProcessImage image = checkpoints.open(place);
      ImageException e =
          assertReason(ImageException.class, ImageException.Reason.NOT_TRUSTED, image::restore);
      assertTrue(e.getMessage().contains("belongs to user 65534"), e.getMessage());
      assertTrue(e.getMessage().contains("expectProcess"), e.getMessage());
      image.restore(RestoreOptions.builder().expectProcess(process).build()).resume();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void imageThatThisJvmMadeIsTheOne() {
    RealCriu.assume();
    try (SimulatedDriver machine = SimulatedDriver.builder().memory(1L << 30).create();
        Stranger stranger = Stranger.create();
        Counter counter = Counter.start(machine)) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(directory.resolve("state"))
              .build();
      checkpoints
          .process(counter.pid())
          .suspend()
          .dump(stranger.home().resolve("image"))
          .restore()
          .resume();
      assertEquals(101, counter.increment());
    }
  }
}
