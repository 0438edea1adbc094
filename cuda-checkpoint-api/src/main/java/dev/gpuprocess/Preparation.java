package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.memory.LockGate;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;

/** Loads and checks what a first suspend and a first dump need, with a process of its own. */
final class Preparation {

  private static final LaunchOptions IDLE = LaunchOptions.builder("sleep", "600").build();

  private final GpuCheckpoints checkpoints;

  Preparation(GpuCheckpoints checkpoints) {
    this.checkpoints =
        checkpoints.toBuilder().listener(StepListener.NONE).resumeOnExit(false).build();
  }

  void run() {
    int unused = checkpoints.cuda().version();
    Optional<GpuReading> unusedReading = checkpoints.context().inventory().read();
    LaunchedProcess idle = checkpoints.launch(IDLE);
    thenAlways(
        () -> {
          LockGate.prepare(idle.identity());
          dump(idle.process().suspend());
        },
        () -> {
          Optional<LaunchedProcess.Exit> unusedExit = idle.end(Duration.ZERO);
        });
  }

  /** Runs both. The failure of the first is the reason, and that of the second its consequence. */
  static void thenAlways(Runnable work, Runnable end) {
    try {
      work.run();
    } catch (RuntimeException | Error e) {
      try {
        end.run();
      } catch (RuntimeException | Error left) {
        e.addSuppressed(left);
      }
      throw e;
    }
    end.run();
  }

  private static void dump(CheckpointedProcess idle) {
    Path place;
    try {
      place = Files.createTempDirectory("gpuprocess-prepare-");
    } catch (IOException e) {
      throw unusable(e);
    }
    thenAlways(
        () -> {
          ProcessImage unused = idle.dump(place.resolve("image"));
        },
        () -> delete(place));
  }

  private static void delete(Path place) {
    try {
      DurableFiles.delete(place);
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  private static ImageException unusable(IOException e) {
    return new ImageException(
        ImageException.Reason.DIRECTORY,
        "no image can be made in %s, which is needed to prepare dumps (%s): set java.io.tmpdir to another directory"
            .formatted(System.getProperty("java.io.tmpdir"), e.getMessage()),
        Failure.of("prepare", 0),
        e);
  }
}
