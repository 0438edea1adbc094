package dev.gpuprocess.examples.comesback;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.TestJvm;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A short {@code bin/lab/comes-back}. The seed is the same in each build, so that a failure can be
 * repeated; {@code -Dgpuprocess.comes-back.seed=SEED} takes another.
 */
@Tag("slow")
class ComesBackTest {

  private static final int CASES = 40;

  @Test
  @Timeout(value = 10, unit = TimeUnit.MINUTES)
  @RequiresCriu
  void whatIsDumpedComesBackOrTheLossIsNamed() throws IOException, InterruptedException {
    long seed = Long.getLong("gpuprocess.comes-back.seed", 46);
    List<String> command =
        new ArrayList<>(List.of("unshare", "--mount", "--pid", "--fork", "--mount-proc"));
    command.addAll(List.of("--kill-child", "bash", "-c", "\"$@\"; exit $?", "bash", "setsid"));
    command.add("--wait");
    command.addAll(TestJvm.command(ComesBack.class, Integer.toString(CASES), Long.toString(seed)));
    Process run = new ProcessBuilder(command).redirectErrorStream(true).start();
    try {
      String output = new String(run.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      String figure = output.lines().reduce("", (first, next) -> next);
      assertEquals(0, run.waitFor(), () -> "seed " + seed + "\n" + output);
      assertTrue(figure.startsWith("comes back: "), output);
      Figures.add(figure);
    } finally {
      run.destroyForcibly();
    }
  }
}
