package dev.gpuprocess.examples.cli;

import dev.gpuprocess.options.DumpOptions;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options of commands that write an image. */
final class DumpArguments {

  @Option(names = "--label", paramLabel = "TEXT", description = "A label for the image.")
  private @Nullable String label;

  @Option(
      names = "--release-inherited-gpu",
      description = "Make forked children release what they inherited of the GPU.")
  private boolean releaseInheritedGpu;

  @Mixin private final LossArguments losses = new LossArguments();

  DumpOptions options(Session session) {
    return CommandException.valid(() -> builder(session).build());
  }

  private DumpOptions.Builder builder(Session session) {
    DumpOptions.Builder options =
        DumpOptions.builder()
            .cancellation(session.cancellation())
            .releaseInheritedGpu(releaseInheritedGpu)
            .allowLoss(losses.attributes());
    if (label != null) {
      options.label(label);
    }
    return options;
  }
}
