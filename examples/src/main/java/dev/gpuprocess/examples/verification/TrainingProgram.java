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
 * @param script its name
 * @param launcher what runs it: {@code python3}, or a launcher of several processes with what that
 *     needs to be told
 * @param steps how many it makes
 * @param arguments what it is told besides the file for its lines and the number of steps
 * @param environment variables that it needs
 */
record TrainingProgram(
    String script,
    List<String> launcher,
    int steps,
    List<String> arguments,
    Map<String, String> environment) {

  private static final String PYTHON = "python3";

  /** Each run gets one that is free. */
  private static final String PORT = "--master-port=";

  /** A small model with so much GPU memory besides, whose data are made in other processes. */
  static TrainingProgram trainer(int steps, int mebibytes, Loaders loaders) {
    return new TrainingProgram(
        "trainer.py",
        List.of(PYTHON),
        steps,
        List.of(Integer.toString(mebibytes), loaders.name().toLowerCase(Locale.ROOT)),
        Map.of());
  }

  /** What Accelerate starts. */
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

  /** What Python runs without a launcher. */
  static TrainingProgram plain(String script, int steps) {
    return new TrainingProgram(script, List.of(PYTHON), steps, List.of(), Map.of());
  }

  /** What torchrun starts once for each of some GPUs. */
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

  /** The command. */
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
