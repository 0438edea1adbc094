package dev.gpuprocess.slot;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.slot.SlotEvent.Kind;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A swap under way. What can fail without touching the processes that run is done first. If the
 * swap fails, they run again. For one thread.
 */
final class SlotSwap {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final SlotState slot;
  private final SlotMoves moves;
  private final SlotQueue.Swap swap;
  private final Cancellation by;
  private final List<QueuedProcess> away = new ArrayList<>();

  /**
   * Creates a swap that {@link #run} makes.
   *
   * @param by ends it early
   */
  SlotSwap(SlotState slot, SlotMoves moves, SlotQueue.Swap swap, Cancellation by) {
    this.slot = slot;
    this.moves = moves;
    this.swap = swap;
    this.by = by;
  }

  void run() {
    QueuedProcess in = swap.in();
    if (in != null && !tried(in, true, () -> prepare(in))) {
      return;
    }
    for (QueuedProcess out : swap.out()) {
      if (!tried(out, false, () -> suspend(out))) {
        bringBack();
        return;
      }
    }
    if (in != null && !tried(in, true, () -> resume(in, by, false))) {
      bringBack();
    }
  }

  /**
   * Makes a move; false if it failed, which is recorded then.
   *
   * @param comes whether the process is on the way to its GPUs
   */
  private boolean tried(QueuedProcess process, boolean comes, Runnable move) {
    Deadline lasted = Deadline.after(Durations.LONGEST);
    try {
      move.run();
      return true;
    } catch (RuntimeException | Error e) {
      LOG.debug("process {} was not moved", process.pid(), e);
      return ended(process, e) ? process != swap.in() : failed(process, comes, e, lasted);
    }
  }

  /** Returns whether a move failed because the process has ended. */
  private boolean ended(QueuedProcess process, Throwable why) {
    // The image of a process on disk is all that is left of it.
    if (!(why instanceof NoSuchProcessException) || process.place() == Place.DISK) {
      return false;
    }
    slot.leave(process, Kind.ENDED);
    return true;
  }

  private boolean failed(QueuedProcess process, boolean comes, Throwable why, Deadline lasted) {
    QueuedProcess in = swap.in();
    if (why instanceof OperationCancelledException && by.isCancelled()) {
      return false;
    }
    slot.failed(process, why, lasted.elapsed());
    if (comes && why instanceof PoisonedProcessException) {
      slot.leave(process, Kind.REMOVED);
    } else if (in != null && process != in) {
      slot.delay(in, why, lasted.elapsed());
    }
    return false;
  }

  /** Has the process ready to be resumed. */
  private void prepare(QueuedProcess in) {
    Path image = in.image();
    if (in.place() == Place.DISK) {
      Deadline lasted = Deadline.after(Durations.LONGEST);
      CheckpointedProcess restored = moves.restore(Objects.requireNonNull(image), by);
      slot.restored(in, restored, lasted.elapsed());
    } else {
      Place place = SlotMoves.place(moves.look(in.process()));
      LOG.debug("process {} is in {}", in.pid(), place);
    }
    // Before the processes that run leave their GPUs for nothing.
    slot.requireRecorded(in);
  }

  private void suspend(QueuedProcess out) {
    Deadline lasted = Deadline.after(Durations.LONGEST);
    try {
      CheckpointedProcess suspended = moves.suspend(out.process(), by);
      away.add(out);
      slot.left(out, suspended, lasted.elapsed());
    } catch (NoSuchProcessException e) {
      throw e;
    } catch (RuntimeException | Error e) {
      lookAfter(out, lasted, e);
      throw e;
    }
  }

  /** Finds out where a process is whose suspend failed. It runs, unless its rollback failed too. */
  private void lookAfter(QueuedProcess out, Deadline lasted, Throwable why) {
    try {
      if (moves.look(out.process()) instanceof CheckpointedProcess suspended) {
        away.add(out);
        slot.left(out, suspended, lasted.elapsed());
      }
    } catch (RuntimeException | Error e) {
      why.addSuppressed(e);
      away.add(out);
      slot.unknown(out);
    }
  }

  private void resume(QueuedProcess process, Cancellation ending, boolean again) {
    // The record must not name an image of a process that has gone on.
    slot.requireRecorded(process);
    Deadline lasted = Deadline.after(Durations.LONGEST);
    RunningProcess running = moves.resume(process.process(), ending);
    slot.came(process, running, lasted.elapsed(), again);
  }

  /** Lets the processes run again that have left their GPUs for nothing. */
  private void bringBack() {
    for (QueuedProcess each : away) {
      boolean unused = tried(each, true, () -> resume(each, new Cancellation(), true));
    }
  }
}
