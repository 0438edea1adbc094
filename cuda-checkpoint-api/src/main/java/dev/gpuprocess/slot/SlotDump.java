package dev.gpuprocess.slot;

import dev.gpuprocess.ImageStore;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.slot.SlotEvent.Kind;
import java.nio.file.Path;
import java.util.Optional;

/**
 * The way of a suspended process from host memory to disk. The record names the image before CRIU
 * may end the process. For one thread.
 */
final class SlotDump {

  private final SlotState slot;
  private final SlotMoves moves;
  private final ImageStore store;
  private final QueuedProcess process;
  private final Cancellation by;

  SlotDump(
      SlotState slot, SlotMoves moves, ImageStore store, QueuedProcess process, Cancellation by) {
    this.slot = slot;
    this.moves = moves;
    this.store = store;
    this.process = process;
    this.by = by;
  }

  void run() {
    Deadline lasted = Deadline.after(Durations.LONGEST);
    try {
      moves.dump(process.process(), store, image -> slot.recordImage(process, image), by);
      slot.dumped(process, lasted.elapsed());
    } catch (RuntimeException | Error e) {
      settle(e, lasted);
    }
  }

  /** Finds out what became of the process. */
  private void settle(Throwable why, Deadline lasted) {
    Path image = process.image();
    Optional<Boolean> alive =
        Unreadable.as(Optional.empty(), () -> Optional.of(process.process().isAlive()));
    // A process that CRIU is about to end may still be alive.
    boolean isUnknown = why instanceof ImageKeptException || alive.isEmpty();
    boolean lives = isUnknown || alive.get();
    if (!lives && image != null && moves.mayHold(image)) {
      slot.dumped(process, lasted.elapsed());
      return;
    }
    if (isUnknown) {
      slot.failed(process, why, lasted.elapsed());
      return; // the record names the image, should the process end
    }
    slot.notDumped(process);
    if (why instanceof NoSuchProcessException && !lives) {
      slot.leave(process, Kind.ENDED);
    } else if (!(why instanceof OperationCancelledException && by.isCancelled())) {
      slot.failed(process, why, lasted.elapsed());
    }
  }
}
