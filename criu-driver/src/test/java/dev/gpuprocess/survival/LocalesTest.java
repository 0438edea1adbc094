package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A controller whose locale has other digits, another i, and no letters but ASCII. */
class LocalesTest {

  @TempDir Path directory;

  @Test
  @OutsideUse("A19")
  void languageAndCharsetChangeNothing() throws IOException, InterruptedException {
    RealCriu.assume();
    try (SimulatedDriver machine = SimulatedDriver.builder().memory(1L << 30).create();
        Counter counter = Counter.start(machine)) {
      assertEquals(101, counter.increment());
      Path places = Files.createDirectory(directory.resolve("places"));
      Path place = Files.createDirectory(places.resolve("Ablage für 画像"));
      Process abroad =
          ChildJvm.start(
              LocaleController.class,
              Files.createDirectory(directory.resolve("temporary")),
              Map.of("LC_ALL", "C"),
              List.of(
                  machine.directory().toString(), places.toString(), Long.toString(counter.pid())));
      String said = new String(abroad.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertTrue(abroad.waitFor(60, TimeUnit.SECONDS));
      assertEquals("done\n", said);
      assertEquals(0, abroad.exitValue());
      assertEquals(102, counter.increment());

      // What was made there is good here.
      counter.kill();
      assertTrue(counter.awaitExit(Duration.ofSeconds(60)));
      GpuCheckpoints here =
          SimulatedMachine.checkpoints(
              machine.directory(), place.resolve("state"), new FaultPoints());
      here.open(place.resolve(LocaleController.LANGUAGES.get(0)).resolve("newer"))
          .restore()
          .resume();
      assertEquals(102, counter.increment());
    }
  }
}
