package dev.gpuprocess.examples.slot;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.slot.GpuSlot;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/**
 * A scheduler in a JVM of its own: opens a slot, and lets processes take turns until its input ends
 * or it is killed. Prints its events, and {@code open N} when N processes are in the queue.
 */
public final class SlotScheduler {

  /** The first word of the line that it prints when all processes are in the queue. */
  static final String OPEN = "open";

  private static final int FIRST_PID = 5;

  private SlotScheduler() {}

  /**
   * Runs the scheduler.
   *
   * @param args directory of the driver, state directory, directory for images, quantum in
   *     milliseconds, budget of host memory in bytes, and the pids that enter the queue; no pids to
   *     continue with the queue of the last scheduler
   */
  public static void main(String[] args) throws IOException {
    GpuCheckpoints checkpoints =
        GpuCheckpoints.builder().cuda(Path.of(args[0])).stateDirectory(Path.of(args[1])).build();
    GpuSlot.Builder described =
        GpuSlot.named("demo", checkpoints)
            .quantum(Duration.ofMillis(Long.parseLong(args[3])))
            .hostMemory(Long.parseLong(args[4]), Path.of(args[2]))
            .listener(System.out::println);
    try (GpuSlot slot = described.open()) {
      for (int i = FIRST_PID; i < args.length; i++) {
        slot.enqueue(Long.parseLong(args[i]), 0);
      }
      System.out.println(OPEN + " " + slot.processes().size());
      int unused = System.in.read();
    }
  }
}
