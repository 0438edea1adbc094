package dev.gpuprocess.examples.comesback;

import dev.gpuprocess.GpuCheckpoints;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Restores the images that its standard input names, one per line, by the API. */
public final class RestoringJvm {

  static final String DONE = "done ";

  private RestoringJvm() {}

  /**
   * Answers each line with {@code done PID} or the message of the failure.
   *
   * @param args the directories of the driver and of the state
   */
  public static void main(String[] args) throws IOException {
    GpuCheckpoints checkpoints =
        GpuCheckpoints.builder().cuda(Path.of(args[0])).stateDirectory(Path.of(args[1])).build();
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(restore(checkpoints, Path.of(line)));
    }
  }

  private static String restore(GpuCheckpoints checkpoints, Path image) {
    try {
      return DONE + checkpoints.open(image).resume().pid();
    } catch (RuntimeException e) {
      return String.valueOf(e).replace('\n', ' ');
    }
  }
}
