package dev.gpuprocess.survival;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An image whose memory a process maps stays in its store until the process is resumed. */
@RequiresRoot("traces the process")
class MappedImageTest {

  private static final int MEBIBYTES = 24;
  private static final Duration PATIENCE = Duration.ofSeconds(50);
  private static final RetentionPolicy NEWEST = RetentionPolicy.builder().keepLast(1).build();

  @TempDir Path directory;

  @Test
  void itIsSparedUntilTheProcessIsResumed() throws IOException {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Pattern job = Pattern.launch(MEBIBYTES).on(machine.driver).notOurChild().start()) {
      GpuCheckpoints checkpoints = machine.checkpoints();
      // Of an image on a disk the memory is copied, and not mapped.
      ImageStore store = checkpoints.store(machine.memory().toRealPath().resolve("store"));
      SnapshotPlan plan =
          SnapshotPlan.into(store)
              .every(Duration.ofDays(1))
              .options(DumpOptions.builder().memoryFiles(true).build())
              .build();
      try (RepeatedSnapshots snapshots = checkpoints.process(job.pid()).repeatSnapshots(plan)) {
        snapshots.snapshotNow();
        snapshots.snapshotNow();
      }
      job.kill();
      await().atMost(PATIENCE).until(() -> Files.notExists(Path.of("/proc/" + job.pid())));
      StoredImage older = store.list().get(1);
      CheckpointedProcess back = store.open(older).restore();

      assertEquals(
          Optional.of("is mapped by process %s, until the process is resumed".formatted(job.pid())),
          store.remove(older.directory()));
      PruneReport spared = store.prune(NEWEST);
      assertEquals(
          Map.of(
              older.directory(),
              "is mapped by process %s, until the process is resumed".formatted(job.pid())),
          spared.spared());
      assertEquals(List.of(), spared.removed());

      back.resume();
      assertEquals("ok " + ((long) MEBIBYTES << 20) + " bytes", job.verify());
      assertEquals(List.of(older.directory()), store.prune(NEWEST).removed());
      ProcessImage newest = store.newestThatVerifies();
      newest.verify();
      assertThrows(
          IllegalArgumentException.class, () -> store.remove(newest.directory().getParent()));
      assertEquals(Optional.empty(), store.remove(newest.directory()));
      assertEquals(List.of(), store.list());
    }
  }
}
