package dev.gpuprocess.examples.cli;

import picocli.CommandLine.Option;

/** The risk that commands may take that take a process off its GPU. */
final class PollArguments {

  @Option(
      names = "--allow-polls",
      description =
          "Take a process off its GPU although it polls the driver and its polls cannot be made to"
              + " wait, so that it may die.")
  private boolean areAllowed;

  boolean areAllowed() {
    return areAllowed;
  }
}
