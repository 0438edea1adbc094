package dev.gpuprocess.internal.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.ProgramRun;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The start of a child, while the garbage collector runs all the time. */
@Tag("slow")
class ChildStartTest {

  private static final int STARTS = 3000;
  private static final Duration ENOUGH = Duration.ofSeconds(20);
  private static final Duration LIMIT = Duration.ofMinutes(3);

  /** The kernel answered "Bad address" to about one start in 100. */
  @Test
  void memoryOfItsArgumentsIsNotCollectedDuringTheCall() {
    // So the compiler soon knows where a variable is used for the last time.
    List<String> options =
        List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:CompileThresholdScaling=0.1");
    assertEquals(
        new ProgramRun.Ended(0, "started\n"),
        ProgramRun.of(TestJvm.command(options, Starts.class)).run(LIMIT));
  }

  /** Starts children on three threads, beside one that collects, and takes what becomes free. */
  static final class Starts {

    private static final int TAKEN = 64;

    private static final int SIZE = Math.max(TAKEN, (System.getenv().size() + 1) * Long.BYTES);
    private static final NativeMemory[] TAKING = new NativeMemory[TAKEN];

    private Starts() {}

    public static void main(String[] none) throws InterruptedException {
      long begun = System.nanoTime();
      AtomicInteger left = new AtomicInteger(STARTS);
      List<Thread> threads = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        Thread thread =
            new Thread(
                () -> {
                  while (left.getAndDecrement() > 0 && isEarly(begun)) {
                    start();
                  }
                });
        threads.add(thread);
        thread.start();
      }
      Thread collecting =
          new Thread(
              () -> {
                while (true) {
                  System.gc();
                  take();
                }
              });
      collecting.setDaemon(true);
      collecting.start();
      for (Thread each : threads) {
        each.join();
      }
      System.out.println("started");
      System.exit(0);
    }

    private static boolean isEarly(long begun) {
      return System.nanoTime() - begun < ENOUGH.toNanos();
    }

    private static void start() {
      try {
        List<Integer> nowhere = List.of(ChildStart.NOWHERE, ChildStart.NOWHERE, ChildStart.NOWHERE);
        byte[] name = {'t', 'r', 'u', 'e', 0};
        int child = ChildStart.start(Path.of("/bin/true"), List.of(name), all -> true, nowhere);
        ExitStatus unused = PidDescriptor.awaitAndReap(child);
      } catch (NativeCallException e) {
        System.out.println(e.getMessage());
      }
    }

    /** Allocates memory of about the size of the environment's addresses, filled with none. */
    private static void take() {
      byte[] content = new byte[SIZE + TAKEN];
      Arrays.fill(content, (byte) 0x77);
      for (int i = 0; i < TAKEN; i++) {
        int size = SIZE - TAKEN / 2 + i;
        NativeMemory memory = NativeMemory.of(size);
        memory.write(0, Arrays.copyOf(content, size));
        TAKING[i] = memory;
      }
    }
  }
}
