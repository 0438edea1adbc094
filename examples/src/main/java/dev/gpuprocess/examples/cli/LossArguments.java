package dev.gpuprocess.examples.cli;

import dev.gpuprocess.options.Attribute;
import java.util.List;
import picocli.CommandLine.Option;

/** The attributes that images may lack, for commands that dump. */
final class LossArguments {

  @Option(
      names = "--allow-loss",
      paramLabel = "NAME",
      split = ",",
      description =
          "Dump a process although a restore does not bring back this attribute: landlock, mdwe,"
              + " sealed-memory, shared-files.")
  private List<Attribute> attributes = List.of();

  Attribute[] attributes() {
    return attributes.toArray(Attribute[]::new);
  }
}
