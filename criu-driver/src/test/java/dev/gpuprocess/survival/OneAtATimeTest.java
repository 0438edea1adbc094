package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.error.OperationInProgressException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is refused while CRIU is at work on a process. */
class OneAtATimeTest {

  @TempDir Path directory;
  private Lane lane;
  private Subject subject;

  @BeforeEach
  void start() {
    RealCriu.assume();
    lane = new Lane(directory);
    subject = Subject.start(lane.machine);
  }

  @AfterEach
  void end() {
    if (subject != null) {
      subject.close();
      lane.close();
    }
  }

  private ProcessImage image(String name) {
    return lane.checkpoints().process(subject.pid()).suspend().dump(lane.images().resolve(name));
  }

  /** Something else is done when CRIU comes to a stage. */
  private GpuCheckpoints meanwhile(String stage, Runnable action) {
    Consumer<String> moments =
        moment -> {
          if (moment.equals(WatchedCriu.STAGE + stage)) {
            action.run();
          }
        };
    return lane.checkpoints().toBuilder()
        .criu(WatchedCriu.of(new RpcCriuDriver(), moments, Duration.ofSeconds(30)))
        .build();
  }

  @Test
  void restore_sameImageIsBeingRestored_refused() {
    Path image = image("image").directory();
    CheckpointedProcess restored =
        meanwhile(
                "preRestore",
                () ->
                    assertThrows(
                        OperationInProgressException.class,
                        () -> lane.checkpoints().open(image).restore()))
            .open(image)
            .restore();
    restored.resume();
    assertEquals(Optional.empty(), subject.fault());
  }

  @Test
  void removeOlder_olderImageIsBeingRestored_refusedAndAfterwardsDone() {
    Path old = image("old").directory();
    lane.checkpoints().open(old).restore().resume();
    Path newest = image("newest").directory();
    ProcessImage newer = lane.checkpoints().open(newest);
    CheckpointedProcess restored =
        meanwhile(
                "preRestore",
                () -> assertThrows(OperationInProgressException.class, () -> newer.removeOlder(1)))
            .open(newest)
            .restore();
    restored.resume();
    assertEquals(Optional.empty(), subject.fault());
    assertEquals(List.of(old), newer.removeOlder(1));
    assertEquals(List.of("newest"), Lane.names(lane.images()));
  }
}
