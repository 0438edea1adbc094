package dev.gpuprocess.internal.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.Command;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Memory outside of the heap, while the garbage collector runs all the time. */
@Tag("slow")
class NativeMemoryTest {

  private static final int BYTES = 1 << 20;
  private static final int COLLECTIONS = 200;
  private static final Duration LIMIT = Duration.ofMinutes(3);

  /** A JVM of its own, which would crash. */
  @Test
  void memoryIsNotFreedDuringItsLastUse() {
    // The compiler knows soon where a variable is used for the last time.
    List<String> options =
        List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:CompileThresholdScaling=0.1");
    assertEquals(
        new Command.Ended(0, "right\n"),
        Command.of(TestJvm.command(options, Collected.class)).run(LIMIT));
  }

  /** Writes to memory that is not used after that, and reads it back as the last use. */
  static final class Collected {

    private Collected() {}

    public static void main(String[] none) throws InterruptedException {
      AtomicBoolean over = new AtomicBoolean();
      byte[] pattern = new byte[BYTES];
      pattern[BYTES - 1] = 7;
      List<Thread> threads = new ArrayList<>();
      for (int i = 0; i < 2; i++) {
        Thread thread =
            new Thread(
                () -> {
                  while (!over.get()) {
                    NativeMemory.of(BYTES).write(0, pattern);
                    NativeMemory copied = NativeMemory.of(BYTES);
                    copied.write(0, pattern);
                    if (copied.read(0, BYTES)[BYTES - 1] != 7) {
                      System.out.println("wrong");
                    }
                  }
                });
        threads.add(thread);
        thread.start();
      }
      for (int i = 0; i < COLLECTIONS; i++) {
        System.gc();
      }
      over.set(true);
      for (Thread each : threads) {
        each.join();
      }
      System.out.println("right");
    }
  }
}
