package dev.gpuprocess.internal.populate;

import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.os.ProcessMemory;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.internal.trace.BorrowedThread;
import dev.gpuprocess.internal.trace.RemoteCalls;
import dev.gpuprocess.internal.trace.RemoteThreads;
import dev.gpuprocess.internal.trace.RemoteThreads.Advice;
import dev.gpuprocess.internal.trace.UntraceableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Threads of another process that populate its memory and end. */
final class Populators {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The most that were measured, on a machine of 16 cores; 1, 2 and 4 were slower. */
  private static final int MOST_THREADS = 8;

  private static final Duration TIDYING = Duration.ofSeconds(5);

  private Populators() {}

  /**
   * Starts them.
   *
   * @param thread of the process
   * @param ranges not empty
   * @param advice {@code MADV_POPULATE_...}
   */
  static RemoteThreads start(BorrowedThread thread, List<AddressRange> ranges, int advice)
      throws UntraceableException, IOException {
    int most = Math.min(MOST_THREADS, Runtime.getRuntime().availableProcessors());
    List<List<Advice>> work = Pieces.of(ranges, most, advice);
    RemoteThreads threads = RemoteThreads.prepare(thread, work.size(), work.get(0).size());
    int started = threads.start(thread, work);
    LOG.debug("{} threads populate {} of process {}", started, ranges, thread.pid());
    return threads;
  }

  /** Waits for their end and unmaps what they ran on. If they do not end, a page or so stays. */
  static void tidy(ProcessIdentity process, RemoteThreads threads) {
    try {
      await(process, threads);
      RemoteCalls.borrow(
          process,
          TIDYING,
          thread -> {
            threads.unmap(thread);
            return threads;
          });
    } catch (UntraceableException | IOException | IllegalStateException e) {
      LOG.debug("what the threads in process {} ran on stays mapped", process.pid(), e);
    }
  }

  private static void await(ProcessIdentity process, RemoteThreads threads)
      throws NativeCallException {
    ProcessMemory memory = new ProcessMemory(process.pid());
    try (Polling polling = new Polling(TIDYING)) {
      boolean inTime = true;
      while (inTime && !threads.haveEnded(memory)) {
        inTime = polling.pause();
      }
    }
  }
}
