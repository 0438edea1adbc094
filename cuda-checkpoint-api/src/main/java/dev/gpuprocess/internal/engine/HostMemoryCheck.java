package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.proc.MemoryLimit;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Checks that there is host memory for the save areas that the driver maps in the processes
 * themselves. The kernel charges those to the control groups of the processes.
 */
public final class HostMemoryCheck {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * What the driver saves in addition to the GPU memory that NVML shows: 9.4 MiB on an H100 with
   * driver 580, independent of the process.
   */
  static final long SPARE_BYTES = 16L << 20;

  private HostMemoryCheck() {}

  /**
   * Returns why a checkpoint of processes could make the kernel kill one.
   *
   * @param bytes the GPU memory of each process that is suspended in the same operation
   * @return the rest of a sentence about the processes; empty if no reason is known
   */
  public static Optional<String> obstacle(Map<ProcessIdentity, Long> bytes) {
    Optional<HostMemory> machine = machine();
    return shortage(machine, bytes).or(() -> exceededLimit(machine, bytes));
  }

  private static Optional<HostMemory> machine() {
    try {
      return Optional.of(HostMemory.read(HostMemory.FILE));
    } catch (IOException e) {
      LOG.info("the free memory of this machine is not known", e);
      return Optional.empty();
    }
  }

  private static Optional<String> shortage(
      Optional<HostMemory> machine, Map<ProcessIdentity, Long> bytes) {
    long all = bytes.values().stream().mapToLong(each -> each + SPARE_BYTES).sum();
    return machine
        .filter(memory -> memory.room() < all)
        .map(
            memory ->
                "this machine has %s of memory left, and the driver needs %s"
                    .formatted(Bytes.text(memory.room()), Bytes.text(all)));
  }

  /** Processes may be in one group, or have a group above in common. */
  private static Optional<String> exceededLimit(
      Optional<HostMemory> machine, Map<ProcessIdentity, Long> bytes) {
    long swap = machine.map(HostMemory::swap).orElse(0L);
    Map<Path, Long> needs = new HashMap<>();
    for (Map.Entry<ProcessIdentity, Long> process : bytes.entrySet()) {
      for (MemoryLimit limit : ControlGroup.memoryLimits(process.getKey().pid())) {
        long need =
            needs.merge(limit.group(), process.getValue() + SPARE_BYTES, (one, more) -> one + more);
        if (limit.room() + Math.min(limit.swap(), swap) < need) {
          return Optional.of(
              "the control group %s allows process %s %s more memory, and the driver needs %s"
                  .formatted(
                      Printable.of(limit.group().toString()),
                      process.getKey().pid(),
                      Bytes.text(Math.max(0, limit.room())),
                      Bytes.text(need)));
        }
      }
    }
    return Optional.empty();
  }

  /**
   * Refuses a checkpoint that could make the kernel kill a process.
   *
   * @param bytes as for {@link #obstacle}
   * @param pool why the host memory pool has too little, or empty
   * @param option the option with which the memory would not be charged to the processes, or empty
   * @throws FixAndRetryException if there is too little memory
   */
  static void require(
      Map<ProcessIdentity, Long> bytes, String pool, String option, Failure failure) {
    Optional<HostMemory> machine = machine();
    Optional<String> shortage = shortage(machine, bytes);
    Optional<String> obstacle = shortage.or(() -> exceededLimit(machine, bytes));
    if (obstacle.isPresent()) {
      throw new FixAndRetryException(
          FixAndRetryException.Reason.HOST_MEMORY,
          "process %s was not checkpointed, as the kernel could kill it for its memory: %s; %sfree memory, or raise the limit of the control group%s"
              .formatted(
                  failure.pid(),
                  obstacle.get(),
                  pool.isEmpty() ? "" : "the pool cannot be used (" + pool + "); ",
                  shortage.isPresent() ? "" : option),
          failure);
    }
  }
}
