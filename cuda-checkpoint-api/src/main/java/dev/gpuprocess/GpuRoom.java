package dev.gpuprocess;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuPair;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuShortage;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;

/**
 * Looks before a GPU restore whether there is room. One that runs out of memory loses the process
 * for ever (NVIDIA/cuda-checkpoint issue 44).
 */
final class GpuRoom {

  /** The driver needs a little more than it accounts to the process. */
  private static final long MARGIN = 64L << 20;

  private static final long POLL_NANOS = 50_000_000;

  private GpuRoom() {}

  /** Waits until there is room or the time is over; the restore looks again. */
  static void await(
      GpuInventory inventory, Map<GpuUuid, Long> held, List<GpuPair> pairs, Duration time) {
    long end = System.nanoTime() + time.toNanos();
    while (shortage(inventory, held, pairs).isPresent() && System.nanoTime() < end) {
      LockSupport.parkNanos(POLL_NANOS);
    }
  }

  /** Tells whether each GPU has what the process held there. */
  static boolean isThere(GpuInventory inventory, Map<GpuUuid, Long> held) {
    return shortage(inventory, held, List.of()).isEmpty();
  }

  /** Throws when a GPU has less free than the process held there. */
  static void require(
      GpuInventory inventory, Map<GpuUuid, Long> held, List<GpuPair> pairs, Verb verb) {
    shortage(inventory, held, pairs)
        .ifPresent(
            shortage -> {
              throw new InsufficientGpuMemoryException(
                  text(shortage, verb.pid())
                      + ": free it or let resume wait for it, the process stays checkpointed",
                  verb.failure(null, ProcessState.CHECKPOINTED),
                  shortage);
            });
  }

  /** Says why a restore to where the process was would be refused now; empty if it would not. */
  static Optional<String> whyNot(GpuInventory inventory, Map<GpuUuid, Long> held, int pid) {
    return shortage(inventory, held, List.of()).map(shortage -> text(shortage, pid));
  }

  private static String text(GpuShortage shortage, int pid) {
    return "%s has %s MiB free and process %s needs %s MiB there; %s"
        .formatted(
            shortage.gpu(),
            shortage.freeBytes() >> 20,
            pid,
            shortage.neededBytes() >> 20,
            shortage.holders().isEmpty()
                ? "no process is known to hold the rest"
                : "the rest is held by " + shortage.holders());
  }

  private static Optional<GpuShortage> shortage(
      GpuInventory inventory, Map<GpuUuid, Long> held, List<GpuPair> pairs) {
    Map<GpuUuid, Long> needed = new TreeMap<>();
    held.forEach((from, bytes) -> needed.merge(target(from, pairs), bytes + MARGIN, Long::sum));
    List<Gpu> gpus = held.isEmpty() ? List.of() : inventory.gpus().orElse(List.of());
    return gpus.stream()
        .map(gpu -> shortage(gpu, needed.getOrDefault(gpu.uuid(), 0L)))
        .filter(shortage -> shortage.freeBytes() < shortage.neededBytes())
        .findFirst();
  }

  private static GpuShortage shortage(Gpu gpu, long neededBytes) {
    return new GpuShortage(
        gpu.uuid(), neededBytes, gpu.freeBytes(), gpu.users().stream().map(Gpu.User::pid).toList());
  }

  private static GpuUuid target(GpuUuid from, List<GpuPair> pairs) {
    return pairs.stream()
        .filter(pair -> pair.from().equals(from))
        .map(GpuPair::to)
        .findFirst()
        .orElse(from);
  }
}
