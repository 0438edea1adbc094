package dev.gpuprocess.slot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The decisions of a slot, with time that stands still. */
class SlotQueueTest {

  private static final long NOW = 1_000_000_000_000L;
  private static final long QUANTUM = 1_000;
  private static final GpuUuid FIRST = GpuUuid.of("GPU-00000000-0000-0000-0000-000000000001");
  private static final GpuUuid SECOND = GpuUuid.of("GPU-00000000-0000-0000-0000-000000000002");

  private final SlotQueue queue = new SlotQueue(QUANTUM);
  private int pids = 1;

  private QueuedProcess add(Place place, int priority, GpuUuid... gpus) {
    ProcessIdentity process = new ProcessIdentity(pids, pids);
    ProcessKey key = new ProcessKey(1, pids, pids);
    pids++;
    QueuedProcess added = new QueuedProcess(process, key, place, Duration.ZERO);
    added.setUsage(Set.of(gpus), 100);
    added.request(priority, queue.ticket(), NOW);
    queue.add(added);
    return added;
  }

  private List<SlotQueue.Swap> due(long later) {
    return queue.due(NOW + later);
  }

  private static SlotQueue.Swap swap(QueuedProcess in, QueuedProcess... out) {
    return new SlotQueue.Swap(in, List.of(out));
  }

  @Test
  void nothingIsDueWhileNoProcessWaits() {
    QueuedProcess holder = add(Place.GPU, 0, FIRST);
    assertEquals(List.of(), due(0));
    assertTrue(holder.hasTurn());
    holder.giveUp();
    assertEquals(List.of(), due(100 * QUANTUM));
  }

  @Test
  void turnLastsAQuantumAmongEqualsAndEndsAtOnceForTheMoreUrgent() {
    QueuedProcess holder = add(Place.GPU, 0, FIRST);
    assertEquals(List.of(), due(0));
    QueuedProcess equal = add(Place.HOST_MEMORY, 0, FIRST);
    assertEquals(List.of(), due(QUANTUM - 1));
    assertEquals(List.of(swap(equal, holder)), due(QUANTUM));
    QueuedProcess urgent = add(Place.HOST_MEMORY, 1, FIRST);
    assertEquals(List.of(swap(urgent, holder)), due(1));
    holder.giveUp();
    urgent.giveUp();
    assertEquals(List.of(swap(equal, holder)), due(1));
  }

  @Test
  void lessUrgentProcessWaitsUntilNoOtherWantsTheGpu() {
    QueuedProcess holder = add(Place.GPU, 1, FIRST);
    assertEquals(List.of(), due(0));
    QueuedProcess lesser = add(Place.HOST_MEMORY, 0, FIRST);
    assertEquals(List.of(), due(100 * QUANTUM));
    holder.giveUp();
    assertEquals(List.of(swap(lesser, holder)), due(100 * QUANTUM));
  }

  @Test
  void oneSwapAtATimeChangesAGpuAndOthersGoOn() {
    QueuedProcess onFirst = add(Place.GPU, 0, FIRST);
    QueuedProcess onSecond = add(Place.GPU, 0, SECOND);
    assertEquals(List.of(), due(0));
    QueuedProcess one = add(Place.HOST_MEMORY, 0, FIRST);
    QueuedProcess other = add(Place.HOST_MEMORY, 0, FIRST);
    SlotQueue.Swap first = swap(one, onFirst);
    assertEquals(List.of(first), due(QUANTUM));
    queue.begin(first);
    QueuedProcess two = add(Place.HOST_MEMORY, 0, SECOND);
    assertEquals(List.of(swap(two, onSecond)), due(QUANTUM));
    queue.end(first);
    onFirst.setPlace(Place.HOST_MEMORY);
    onFirst.end(NOW, queue.ticket());
    one.setPlace(Place.GPU);
    one.begin(NOW + QUANTUM);
    assertEquals(List.of(swap(two, onSecond)), due(QUANTUM));
    assertEquals(List.of(swap(other, one), swap(two, onSecond)), due(2 * QUANTUM));
  }

  @Test
  void processOfTwoGpusIsNotPassedByThoseOfOne() {
    QueuedProcess onFirst = add(Place.GPU, 0, FIRST);
    assertEquals(List.of(), due(0));
    QueuedProcess both = add(Place.HOST_MEMORY, 0, FIRST, SECOND);
    add(Place.HOST_MEMORY, 0, SECOND);
    assertEquals(List.of(), due(QUANTUM - 1));
    assertEquals(List.of(swap(both, onFirst)), due(QUANTUM));
  }

  @Test
  void processOfUnknownGpusTakesAll() {
    QueuedProcess onFirst = add(Place.GPU, 0, FIRST);
    QueuedProcess onSecond = add(Place.GPU, 0, SECOND);
    assertEquals(List.of(), due(0));
    QueuedProcess unknown = add(Place.HOST_MEMORY, 0);
    assertEquals(List.of(swap(unknown, onFirst, onSecond)), due(QUANTUM));
  }

  @Test
  void runningProcessLeavesAGpuOnWhichItHasNoTurn() {
    QueuedProcess holder = add(Place.GPU, 0, FIRST);
    QueuedProcess other = add(Place.GPU, 0, FIRST);
    assertEquals(List.of(new SlotQueue.Swap(null, List.of(other))), due(0));
    assertTrue(holder.hasTurn());
  }

  @Test
  void failureDelaysTheNextTryAndLetsOthersPass() {
    QueuedProcess holder = add(Place.GPU, 0, FIRST);
    assertEquals(List.of(), due(0));
    QueuedProcess one = add(Place.HOST_MEMORY, 0, FIRST);
    QueuedProcess two = add(Place.HOST_MEMORY, 0, FIRST);
    one.failed(new IllegalStateException(), NOW, Duration.ZERO);
    assertEquals(List.of(swap(two, holder)), due(QUANTUM));
    assertEquals(List.of(swap(one, holder)), due(Duration.ofMillis(100).toNanos()));
  }

  @Test
  void leastUrgentProcessGoesToDisk() {
    add(Place.GPU, 0, FIRST);
    QueuedProcess urgent = add(Place.HOST_MEMORY, 1, FIRST);
    QueuedProcess next = add(Place.HOST_MEMORY, 0, FIRST);
    QueuedProcess last = add(Place.HOST_MEMORY, 0, FIRST);
    assertEquals(Optional.empty(), queue.overBudget(300, NOW));
    assertEquals(Optional.of(last), queue.overBudget(299, NOW));
    last.setBusy(true);
    assertEquals(Optional.of(next), queue.overBudget(299, NOW));
    urgent.giveUp();
    assertEquals(Optional.of(urgent), queue.overBudget(299, NOW));
  }
}
