package dev.gpuprocess.examples.agent;

import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads that run calls whose token was checked. Calls that wait for a turn or a verb have
 * threads of their own, so that {@code Yield} and {@code Status} run while those wait.
 */
final class CallThreads implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(CallThreads.class);

  /**
   * The largest number of calls of a connection. More than {@link #WAITING}: a client with one
   * connection can send {@code Yield} however many of its calls wait.
   */
  static final int PER_CONNECTION = 64;

  /** The largest number of calls that wait at a time. */
  static final int WAITING = 48;

  private static final int BRIEF = 16;
  private static final int BRIEF_QUEUED = 256;

  private final ExecutorService waiting = Threads.bounded("gpuprocess waiting call", WAITING, 0);
  private final ExecutorService brief = Threads.bounded("gpuprocess call", BRIEF, BRIEF_QUEUED);

  /** Returns the threads for calls that wait for a turn or a verb. */
  Executor waiting() {
    return waiting;
  }

  /** Returns the threads for all other calls. */
  Executor brief() {
    return brief;
  }

  /** Refuses new calls, and waits until those under way have ended. */
  @Override
  public void close() {
    waiting.shutdown();
    brief.shutdown();
    if (!Operations.ended(waiting) || !Operations.ended(brief)) {
      LOG.warn("a call did not end within a minute");
    }
  }
}
