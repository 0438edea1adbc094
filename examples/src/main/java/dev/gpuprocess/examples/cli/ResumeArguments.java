package dev.gpuprocess.examples.cli;

import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.options.ResumeOptions;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** The options of commands that move memory back to a GPU. */
final class ResumeArguments {

  @Option(
      names = "--gpus",
      paramLabel = "MAP",
      description = "same, automatic, the UUID of one GPU, or OLD=NEW,... for each GPU.")
  private @Nullable GpuMap gpus;

  @Option(
      names = "--wait-for-memory",
      paramLabel = "TIME",
      description = "Wait so long for GPU memory that other processes hold.")
  private @Nullable Duration waitForMemory;

  @Option(
      names = "--fallback-image",
      paramLabel = "DIR",
      description = "Write an image first if the GPU memory may not suffice.")
  private @Nullable Path fallbackImage;

  ResumeOptions options(Session session) {
    return CommandException.valid(() -> builder(session).build());
  }

  private ResumeOptions.Builder builder(Session session) {
    ResumeOptions.Builder options = ResumeOptions.builder().cancellation(session.cancellation());
    if (gpus != null) {
      options.gpus(gpus);
    }
    if (waitForMemory != null) {
      options.waitForMemory(waitForMemory);
    }
    if (fallbackImage != null) {
      options.fallbackImage(fallbackImage);
    }
    return options;
  }
}
