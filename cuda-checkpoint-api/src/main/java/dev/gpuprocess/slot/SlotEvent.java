package dev.gpuprocess.slot;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * What a {@link GpuSlot} did with a process, or found out about it. Immutable.
 *
 * @param at when it was done
 * @param kind what was done
 * @param process which process
 * @param gpus the GPUs that it takes; empty if that is not known
 * @param took how long it took; zero for what takes no time
 * @param failure the exception of a {@link Kind#FAILED} move, or why a process is {@link
 *     Kind#UNDUMPABLE}; else null
 */
public record SlotEvent(
    Instant at,
    Kind kind,
    ProcessIdentity process,
    Set<GpuUuid> gpus,
    Duration took,
    @Nullable Throwable failure) {

  /** What a slot does. */
  public enum Kind {
    /** The process wants a GPU and waits. */
    QUEUED,
    /** The process runs on its GPUs, and it is its turn. */
    STARTED,
    /** The process left its GPUs for another, and is in host memory. */
    SUSPENDED,
    /** The process went from host memory to disk, since the budget was exceeded. */
    DUMPED,
    /** The process came from disk to host memory. */
    RESTORED,
    /** The process no longer wants a GPU. It keeps its GPUs until another process wants them. */
    RELEASED,
    /**
     * The process entered the queue, and could not go to disk as it is now: if the budget of host
     * memory is exceeded, it stays in host memory.
     */
    UNDUMPABLE,
    /** A move of the process failed. It is where it was, and the move is tried again. */
    FAILED,
    /** The process has ended, and left the queue. */
    ENDED,
    /** The process was taken out of the queue, by a caller or because it cannot be moved. */
    REMOVED
  }

  /** Copies the set. */
  public SlotEvent {
    gpus = Collections.unmodifiableSet(new TreeSet<>(gpus));
  }

  /**
   * The event in one line.
   *
   * @return time, process, kind and duration, and the message of a failure
   */
  @Override
  public String toString() {
    return "%s process %s %s%s%s"
        .formatted(
            at,
            Integer.toString(process.pid()),
            kind,
            took.isZero() ? "" : " in " + Printable.of(took),
            failure == null ? "" : ": " + Printable.of(String.valueOf(failure.getMessage())));
  }
}
