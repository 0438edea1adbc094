package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.fixtures.Insider;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Programs whose polls end in another way than by a return survive suspends. */
@RequiresRoot("traces other processes")
@SimulatedGpu
@Tag("slow")
record InterruptedPollsTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {

  private static final long PATIENCE_SECONDS = 180;
  private static final int SUSPENDS = 2;

  @ParameterizedTest
  @EnumSource(
      mode = EnumSource.Mode.EXCLUDE,
      names = {"FFT", "SORT"})
  void suspends_programLives(Insider.Subject subject) {
    try (Insider insider = machine.start(Insider.launch(subject).notOurChild())) {
      awaitFurther(insider, insider.rounds());
      for (int i = 0; i < SUSPENDS; i++) {
        checkpoints.process(insider.pid()).suspend().resume();
        awaitFurther(insider, insider.rounds());
      }
      assertEquals("nothing", insider.firstFailure());
    }
  }

  /** A thread that can do nothing with this driver makes no rounds. */
  private static void awaitFurther(Insider insider, List<Long> before) {
    await()
        .atMost(PATIENCE_SECONDS, SECONDS)
        .until(
            () -> {
              List<Long> now = insider.rounds();
              return IntStream.range(0, now.size())
                  .allMatch(i -> now.get(i) < 0 || now.get(i) > before.get(i));
            });
  }
}
