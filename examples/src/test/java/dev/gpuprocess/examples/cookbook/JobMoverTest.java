package dev.gpuprocess.examples.cookbook;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The recipe of a move between hosts, with real CRIU. */
@RequiresCriu
class JobMoverTest {

  private Path directory;
  private SimulatedDriver machine;
  private Counter job;
  private JobMover here;
  private JobMover there;

  @BeforeEach
  void startJob(@TempDir Path given) {
    directory = given;
    machine = SimulatedDriver.create();
    job = Counter.start(machine);
    here = host("here");
    there = host("there");
    assertEquals(101, job.increment());
  }

  /** Returns a mover with its own settings, state and images, as on another host. */
  private JobMover host(String name) {
    GpuCheckpoints gpus =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(directory.resolve("state-" + name))
            .build();
    return new JobMover(gpus, directory.resolve("images-" + name), directory.resolve("shared"));
  }

  @AfterEach
  void endJob() {
    job.close();
    machine.close();
  }

  @Test
  void movesAJobToAnotherHost() {
    here.send("job-42", job.pid());
    assertFalse(job.isAlive());
    assertEquals(job.pid(), there.take("job-42").orElseThrow().pid());
    assertEquals(102, job.increment());
    assertReason(ImageException.class, ImageException.Reason.MISSING, () -> there.take("job-43"));
  }

  @Test
  void refusesAnAlteredImage() throws IOException {
    here.send("job-42", job.pid());
    Path pages = directory.resolve("shared/job-42/criu/pages-1.img");
    byte[] content = Files.readAllBytes(pages);
    byte[] altered = content.clone();
    altered[altered.length / 2] ^= 1;
    Files.write(pages, altered);
    assertReason(ImageException.class, ImageException.Reason.CORRUPT, () -> there.take("job-42"));
    Files.write(pages, content);
    assertEquals(job.pid(), there.take("job-42").orElseThrow().pid());
    assertEquals(102, job.increment());
  }
}
