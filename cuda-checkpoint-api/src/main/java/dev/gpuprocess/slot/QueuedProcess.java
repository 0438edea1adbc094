package dev.gpuprocess.slot;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A process in the queue of a slot. Moments are values of {@link System#nanoTime()}. Not safe for
 * use by several threads: the slot guards it by its lock.
 */
final class QueuedProcess {

  private static final long FIRST_PAUSE = 100_000_000;
  private static final long LONGEST_PAUSE = 10_000_000_000L;

  private ProcessKey key;
  private ProcessIdentity process;
  private Place place;
  private Set<GpuUuid> gpus;
  private long bytes;
  private Duration used;
  private @Nullable Path image;

  private int priority;
  private boolean wanted;
  private long ticket;

  private boolean turn;
  private long turns;
  private long turnBegan;
  private long quantumBegan;

  private boolean busy;
  private int failures;
  private long retryAt;
  private @Nullable Throwable failure;

  /**
   * Creates a process that does not want a GPU yet.
   *
   * @param used the time of its earlier turns
   */
  QueuedProcess(ProcessIdentity process, ProcessKey key, Place place, Duration used) {
    this.key = key;
    this.process = process;
    this.place = place;
    this.used = used;
    this.gpus = Set.of();
  }

  ProcessKey key() {
    return key;
  }

  ProcessIdentity process() {
    return process;
  }

  int pid() {
    return process.pid();
  }

  Place place() {
    return place;
  }

  boolean isOnGpu() {
    return place == Place.GPU;
  }

  /** Returns the GPUs that it takes; empty if that is not known. */
  Set<GpuUuid> gpus() {
    return gpus;
  }

  long bytes() {
    return bytes;
  }

  /** Returns the image that holds the process, or will; null for none. */
  @Nullable Path image() {
    return image;
  }

  int priority() {
    return priority;
  }

  boolean isWanted() {
    return wanted;
  }

  /** Returns its place among those of its priority. */
  long ticket() {
    return ticket;
  }

  /** Returns whether its turn has begun and not ended. It may not want its GPUs any more. */
  boolean hasTurn() {
    return turn;
  }

  /** Returns the number of its present or last turn; turns count from 1. */
  long turn() {
    return turns;
  }

  /** Returns whether a move of the process is under way. */
  boolean isBusy() {
    return busy;
  }

  void setBusy(boolean now) {
    busy = now;
  }

  /** Returns the exception of the last move, if that failed; else null. */
  @Nullable Throwable failure() {
    return failure;
  }

  /** Sets where its memory is. */
  void setPlace(Place now) {
    place = now;
  }

  /** Sets the image that holds the process, or will; null for none. */
  void setImage(@Nullable Path directory) {
    image = directory;
  }

  /** Sets what it holds; keeps what is known if that is empty. */
  void setUsage(Set<GpuUuid> held, long size) {
    if (!held.isEmpty()) {
      gpus = Set.copyOf(held);
      bytes = size;
    }
  }

  /** Sets the identity that it has since it was restored from its image. */
  void setIdentity(ProcessIdentity restored, ProcessKey restoredKey) {
    process = restored;
    key = restoredKey;
  }

  /** Records that it wants a GPU; keeps its place in the queue if it wanted one already. */
  void request(int newPriority, long newTicket, long now) {
    priority = newPriority;
    if (!wanted) {
      wanted = true;
      ticket = newTicket;
      retryAt = now;
      quantumBegan = now;
    }
  }

  /** Records that it no longer wants a GPU. */
  void giveUp() {
    wanted = false;
  }

  /** Begins its turn. */
  void begin(long now) {
    quantumBegan = now;
    beginAgain(now);
  }

  /** Goes on with its turn after a swap that failed; the quantum is that of before. */
  void beginAgain(long now) {
    turn = true;
    turns++;
    turnBegan = now;
    succeeded(now);
  }

  /** Ends its turn. If it still wants a GPU it waits again, as the last of its priority. */
  void end(long now, long newTicket) {
    if (turn) {
      used = used.plusNanos(now - turnBegan);
      turn = false;
      ticket = newTicket;
    }
  }

  /** Records that a move failed, which delays the next one. */
  void failed(Throwable why, long now, Duration lasted) {
    failure = why;
    long pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE << Math.min(failures, 10));
    failures++;
    retryAt = now + Math.max(pause, Math.min(LONGEST_PAUSE, lasted.toNanos()));
  }

  /** Records that a move succeeded. */
  void succeeded(long now) {
    failure = null;
    failures = 0;
    retryAt = now;
  }

  /** Returns the time until it can be moved again; 0 or less if it can be moved now. */
  long pause(long now) {
    return failures == 0 ? 0 : retryAt - now;
  }

  boolean canMove(long now) {
    return !busy && pause(now) <= 0;
  }

  /** Returns the rest of the quantum of its turn; 0 or less if it is over. */
  long restOfQuantum(long now, long quantum) {
    return turn ? quantumBegan + quantum - now : 0;
  }

  /** Returns whether two processes cannot be on their GPUs at the same time. */
  boolean overlaps(QueuedProcess other) {
    return gpus.isEmpty() || other.gpus.isEmpty() || !Collections.disjoint(gpus, other.gpus);
  }

  /** Returns the time of all its turns. */
  Duration used(long now) {
    return turn ? used.plusNanos(now - turnBegan) : used;
  }

  /** Returns what callers see of it. */
  SlotProcess report(long now) {
    return new SlotProcess(
        process,
        place,
        priority,
        wanted,
        gpus,
        bytes,
        used(now),
        place == Place.DISK ? image : null);
  }
}
