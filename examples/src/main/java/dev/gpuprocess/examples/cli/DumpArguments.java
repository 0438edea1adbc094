package dev.gpuprocess.examples.cli;

import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.DumpOptions;
import java.util.List;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** The options of commands that write an image. */
final class DumpArguments {

  @Option(names = "--label", paramLabel = "TEXT", description = "A label for the image.")
  private @Nullable String label;

  @Option(
      names = "--release-inherited-gpu",
      description = "Make forked children release what they inherited of the GPU.")
  private boolean releaseInheritedGpu;

  @Option(
      names = "--allow-loss",
      paramLabel = "NAME",
      split = ",",
      description =
          "Dump a process although a restore does not bring back this attribute:"
              + " landlock, mdwe, sealed-memory.")
  private List<Attribute> allowedLosses = List.of();

  DumpOptions options(Session session) {
    return CommandException.valid(() -> builder(session).build());
  }

  private DumpOptions.Builder builder(Session session) {
    DumpOptions.Builder options =
        DumpOptions.builder()
            .cancellation(session.cancellation())
            .releaseInheritedGpu(releaseInheritedGpu)
            .allowLoss(allowedLosses.toArray(Attribute[]::new));
    if (label != null) {
      options.label(label);
    }
    return options;
  }
}
