package dev.gpuprocess.examples.verification;

import dev.gpuprocess.examples.verification.Trainer.Loaders;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * A PyTorch program of this jar that writes a line {@code step loss} for each step.
 *
 * @param script its file name
 * @param launcher {@code python3}, or a launcher of several processes with its arguments
 * @param steps the number of its steps
 * @param arguments its arguments after the file for its lines and the number of steps
 * @param environment its environment variables
 */
record TrainingProgram(
    String script,
    List<String> launcher,
    int steps,
    List<String> arguments,
    Map<String, String> environment) {

  private static final String PYTHON = "python3";
  private static final String VISIBLE = "CUDA_VISIBLE_DEVICES";

  /** The argument to which each run adds a free port. */
  private static final String PORT = "--master-port=";

  /** A small model with additional GPU memory, whose data are made by loaders. */
  static TrainingProgram trainer(int steps, int mebibytes, Loaders loaders) {
    return new TrainingProgram(
        "trainer.py",
        List.of(PYTHON),
        steps,
        List.of(Integer.toString(mebibytes), loaders.name().toLowerCase(Locale.ROOT)),
        Map.of());
  }

  /** The same without PyTorch and without loaders, for a simulated GPU. */
  static TrainingProgram withoutPyTorch(int steps, int mebibytes, Map<String, String> environment) {
    return new TrainingProgram(
        "driver_trainer.py",
        List.of(PYTHON),
        steps,
        List.of(Integer.toString(mebibytes)),
        environment);
  }

  /** A script started by Accelerate. */
  static TrainingProgram accelerated(String script, int steps) {
    List<String> launcher =
        List.of(
            PYTHON,
            "-m",
            "accelerate.commands.launch",
            "--num_processes=1",
            "--num_machines=1",
            "--mixed_precision=no",
            "--dynamo_backend=no");
    return new TrainingProgram(script, launcher, steps, List.of(), Map.of());
  }

  /**
   * A script started without a launcher, on the first GPU: some libraries use each that they see.
   */
  static TrainingProgram plain(String script, int steps) {
    String visible = System.getenv().getOrDefault(VISIBLE, "0");
    return new TrainingProgram(
        script, List.of(PYTHON), steps, List.of(), Map.of(VISIBLE, visible.split(",")[0]));
  }

  /** A script started by torchrun, once for each GPU. */
  static TrainingProgram ranks(
      String script, int steps, int gpus, Map<String, String> environment) {
    List<String> launcher =
        List.of(
            PYTHON,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node=" + gpus,
            "--master-addr=127.0.0.1",
            PORT);
    return new TrainingProgram(script, launcher, steps, List.of(), environment);
  }

  /** Returns the command. */
  List<String> command(Path script, Path losses) {
    List<String> command = new ArrayList<>();
    launcher.forEach(word -> command.add(word.equals(PORT) ? word + freePort() : word));
    command.addAll(List.of(script.toString(), losses.toString(), Integer.toString(steps)));
    command.addAll(arguments);
    return command;
  }

  private static int freePort() {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    } catch (IOException e) {
      throw new UncheckedIOException("no port is free", e);
    }
  }
}
