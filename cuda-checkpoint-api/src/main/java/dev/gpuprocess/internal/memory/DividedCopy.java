package dev.gpuprocess.internal.memory;

import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.pool.PreparedMemory;
import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.util.OptionalDouble;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A checkpoint or restore of the driver whose copies are divided among threads. If the hook cannot
 * be set, the driver copies on its own thread.
 */
public final class DividedCopy {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Setting the hook takes longer than a copy of fewer bytes. */
  private static final long LEAST_BYTES = 256L << 20;

  private static final long HUGE_PAGE = 2 << 20;

  /** More threads were not faster on a machine of 16 processors, where 12 were best. */
  private static final int MOST_THREADS = 16;

  private static final int LEAST_THREADS = 2;

  private DividedCopy() {}

  /**
   * Returns whether a hook saves more time than it takes.
   *
   * @param bytes that the driver will copy; 0 for an unknown number, which may be large
   */
  public static boolean isWorthwhile(long bytes) {
    return bytes == 0 || bytes >= LEAST_BYTES;
  }

  /**
   * Runs a call of the driver.
   *
   * @param memory for the save area; not closed
   * @param processes how many processes are copied at the same time
   * @param saves whether the call is a checkpoint, and not a restore
   * @param call the driver's, on this thread; it has its own deadline
   * @param alone the same call, if the driver copies without a hook
   * @return a note for an operator
   */
  public static String during(
      ProcessIdentity process,
      PreparedMemory memory,
      int processes,
      boolean saves,
      Runnable call,
      Runnable alone) {
    long began = System.nanoTime();
    DriverHook hook;
    int threads = threads(process.pid(), processes);
    try {
      hook = DriverHook.set(process, memory.files(), threads, saves);
    } catch (UntraceableException | IOException | ProcessUnreadableException e) {
      LOG.info("process {}: its driver copies on one thread", process.pid(), e);
      alone.run();
      return "copied by the driver's own thread: " + e.getMessage();
    }
    LOG.debug("process {}: hook set in {} us", process.pid(), microsSince(began));
    boolean answered = true;
    boolean done = false;
    String note = "";
    try {
      call.run();
      done = true;
    } catch (OperationTimedOutException | OperationCancelledException e) {
      answered = false; // the hook cannot be removed from a process that hangs
      throw e;
    } finally {
      if (answered) {
        note = removed(process, hook, memory, threads, saves, done);
      }
    }
    return note;
  }

  /**
   * Returns how many threads copy beside the driver's own thread.
   *
   * @param pid the process, which may be bound to some processors and have a quota
   */
  private static int threads(int pid, int processes) {
    int processors = Math.min(Runtime.getRuntime().availableProcessors(), allowed(pid));
    OptionalDouble quota = ControlGroup.processors(pid);
    if (quota.isPresent()) {
      processors = (int) Math.min(processors, Math.max(1, quota.getAsDouble()));
    }
    // A quarter of the processors is left to the driver and to other processes.
    int all = Math.min(MOST_THREADS, processors - processors / 4);
    int own = Math.max(Math.min(LEAST_THREADS, all), all / processes);
    return Math.max(1, own - 1);
  }

  /** Counts the bits of {@code Cpus_allowed: ffff,ffffffff}. */
  private static int allowed(int pid) {
    String mask = ProcFs.status(pid).getOrDefault("Cpus_allowed", "");
    int count = 0;
    for (int i = 0; i < mask.length(); i++) {
      count += Integer.bitCount(Math.max(0, Character.digit(mask.charAt(i), 16)));
    }
    return count == 0 ? Integer.MAX_VALUE : count;
  }

  private static String removed(
      ProcessIdentity process,
      DriverHook hook,
      PreparedMemory memory,
      int threads,
      boolean saves,
      boolean isDone) {
    String note = "";
    long began = System.nanoTime();
    try {
      DriverHook.Work work = hook.work();
      note = note(work, threads, saves);
      hook.remove();
      memory.trim(used(work)); // the process no longer maps the rest
      LOG.debug("process {}: hook removed in {} us", process.pid(), microsSince(began));
      if (saves && isDone && work.prepared() > 0) {
        note += zerosGivenBack(process, memory);
      }
    } catch (UntraceableException | IOException | ProcessUnreadableException e) {
      // The hook copies as the C library does. The next verb removes it.
      LOG.info("process {}: the hook of its libcuda stays", process.pid(), e);
    }
    return note;
  }

  private static String zerosGivenBack(ProcessIdentity process, PreparedMemory memory) {
    long began = System.nanoTime();
    try {
      long bytes = ZeroPages.giveBack(process, memory);
      LOG.debug("process {}: zeros given back in {} us", process.pid(), microsSince(began));
      return bytes == 0 ? "" : ", of which %s are zero and not kept".formatted(Bytes.text(bytes));
    } catch (UntraceableException | IOException | ProcessUnreadableException e) {
      LOG.info("process {}: zeros of its GPU memory are kept", process.pid(), e);
      return "";
    }
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
        ? copied + " into prepared memory"
        : copied + " into memory that the driver mapped";
  }
}
