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

  @Option(names = "--tcp-established", description = "Dump established TCP connections too.")
  private boolean tcpEstablished;

  @Option(names = "--shell-job", description = "The process belongs to the session of a shell.")
  private boolean shellJob;

  @Option(names = "--file-locks", description = "Dump file locks too.")
  private boolean fileLocks;

  @Option(names = "--link-remap", description = "Dump open files that were unlinked.")
  private boolean linkRemap;

  @Option(
      names = "--ghost-limit",
      paramLabel = "BYTES",
      description = "The largest unlinked file that is copied into the image.")
  private @Nullable Long ghostLimit;

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
            .allowLoss(allowedLosses.toArray(Attribute[]::new))
            .criu(
                criu -> {
                  criu.tcpEstablished(tcpEstablished)
                      .shellJob(shellJob)
                      .fileLocks(fileLocks)
                      .linkRemap(linkRemap);
                  if (ghostLimit != null) {
                    criu.ghostLimit(ghostLimit);
                  }
                });
    if (label != null) {
      options.label(label);
    }
    return options;
  }
}
