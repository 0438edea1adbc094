package dev.gpuprocess.internal.proc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import dev.gpuprocess.contract.OutsideUse;
import java.io.IOException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(240)
class LifeSignTest {

  /** The kill takes effect while the process is read. */
  @Test
  @OutsideUse("A1")
  void aKilledProcessIsNotFree() throws IOException, InterruptedException {
    for (int i = 0; i < 400; i++) {
      Process process = new ProcessBuilder("sleep", "600").start();
      assertEquals(LifeSign.FREE, LifeSign.of(process.pid()));

      process.toHandle().destroyForcibly();

      for (int look = 0; look < 3; look++) {
        assertNotEquals(LifeSign.FREE, LifeSign.of(process.pid()), "of kill " + i);
      }
      process.waitFor();
    }
    assertEquals(LifeSign.GONE, LifeSign.of(Integer.MAX_VALUE));
  }
}
