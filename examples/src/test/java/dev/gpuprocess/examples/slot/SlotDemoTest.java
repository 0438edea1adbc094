package dev.gpuprocess.examples.slot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresCriu;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The short form of {@code bin/lab/slot-demo}, which judges the shares, too. */
@Tag("slow")
class SlotDemoTest {

  private static final int SECONDS = 10;
  private static final long SEED = 27;

  @Test
  @Timeout(240) // it ends when enough has happened, which a busy machine delays
  @RequiresCriu
  void noProcessIsLost() throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8);
    SlotDemo.Result result = SlotDemo.run(SECONDS, SEED, out);
    assertEquals(List.of(), result.lost(), () -> bytes.toString(StandardCharsets.UTF_8));
    assertTrue(result.swaps() > 6, result::toString);
    assertTrue(result.kills() >= 2, result::toString);
    assertTrue(result.dumps() > 0, result::toString);
  }
}
