package dev.gpuprocess.internal.memory;

import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.pool.PreparedMemory;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A checkpoint or restore of the driver during which its copies are divided among threads. Where
 * the hook cannot be set the driver copies on its own thread.
 */
public final class DividedCopy {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The driver copies less in the time that setting the hook takes. */
  private static final long LEAST_BYTES = 256L << 20;

  private static final long HUGE_PAGE = 2 << 20;

  /**
   * What was done.
   *
   * @param note for an operator
   * @param areas the memory that the driver mapped, as far as that was observed
   */
  public record Outcome(String note, List<AddressRange> areas) {}

  private DividedCopy() {}

  /**
   * Whether it takes less time to set a hook than it saves.
   *
   * @param bytes what the driver will copy; 0 if that is not known, as it may be much
   */
  public static boolean isWorthwhile(long bytes) {
    return bytes == 0 || bytes >= LEAST_BYTES;
  }

  /**
   * Runs a call of the driver.
   *
   * @param memory for the save area; not closed
   * @param processes how many are copied at the same time
   * @param saves whether the driver is about to save, and not to restore what it has saved
   * @param call the driver's, on this thread; it has its own deadline
   */
  public static Outcome during(
      ProcessIdentity process, PreparedMemory memory, int processes, boolean saves, Runnable call) {
    long began = System.nanoTime();
    DriverHook hook;
    int threads = CopyThreads.beside(process.pid(), processes);
    try {
      hook = DriverHook.set(process, memory.files(), threads, saves);
    } catch (UntraceableException | IOException | ProcessUnreadableException e) {
      LOG.info("process {}: its driver copies by one thread", process.pid(), e);
      call.run();
      return new Outcome("copied by the driver's own thread: " + e.getMessage(), List.of());
    }
    LOG.debug("process {}: hook set in {} us", process.pid(), microsSince(began));
    boolean answered = true;
    Outcome outcome = new Outcome("", List.of());
    try {
      call.run();
    } catch (OperationTimedOutException e) {
      answered = false; // nothing can be taken away in a process that hangs
      throw e;
    } finally {
      if (answered) {
        outcome = removed(process, hook, memory, threads, saves);
      }
    }
    return outcome;
  }

  private static Outcome removed(
      ProcessIdentity process, DriverHook hook, PreparedMemory memory, int threads, boolean saves) {
    Outcome outcome = new Outcome("", List.of());
    long began = System.nanoTime();
    try {
      DriverHook.Work work = hook.work();
      outcome = new Outcome(note(work, threads, saves), work.areas());
      hook.remove();
      memory.trim(used(work)); // the hook has unmapped the rest
      LOG.debug("process {}: hook removed in {} us", process.pid(), microsSince(began));
    } catch (UntraceableException | IOException | ProcessUnreadableException e) {
      // It copies as the C library does. The next verb takes it away.
      LOG.info("process {}: the hook of its libcuda stays", process.pid(), e);
    }
    return outcome;
  }

  /** Each save area begins at a huge page. */
  private static long used(DriverHook.Work work) {
    return work.prepared() == 0
        ? 0
        : work.areas().stream()
            .mapToLong(area -> (area.bytes() + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE)
            .sum();
  }

  private static long microsSince(long began) {
    return (System.nanoTime() - began) / 1000;
  }

  private static String note(DriverHook.Work work, int threads, boolean saves) {
    String copied = "%s copied by %s threads".formatted(Bytes.text(work.copied()), threads + 1);
    if (!saves || work.areas().isEmpty()) {
      return copied;
    }
    return work.prepared() > 0
        ? copied + " into memory that was made before"
        : copied + " into memory that the driver mapped";
  }
}
