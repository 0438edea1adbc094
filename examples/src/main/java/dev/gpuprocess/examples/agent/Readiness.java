package dev.gpuprocess.examples.agent;

import dev.gpuprocess.GpuCheckpoints;
import java.time.Duration;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whether the GPUs can be read, as of the last second. Health checks need no token, so they use
 * this answer and never call the driver. May be used from any thread.
 */
final class Readiness implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(Readiness.class);

  /** An answer of this age means that the driver hangs. */
  private static final Duration STALE = Duration.ofSeconds(30);

  private final GpuCheckpoints machine;
  private final ScheduledExecutorService refreshing =
      Executors.newSingleThreadScheduledExecutor(Threads.daemons("gpuprocess health"));
  private volatile long read = System.nanoTime() - STALE.toNanos();

  /** Creates one that is not ready until it is started. */
  Readiness(GpuCheckpoints machine) {
    this.machine = machine;
  }

  /** Reads the GPUs, and then again every second. */
  void start() {
    refresh();
    ScheduledFuture<?> unused =
        refreshing.scheduleWithFixedDelay(
            Threads.repeatable(this::refresh), 1, 1, TimeUnit.SECONDS);
  }

  private void refresh() {
    long now = System.nanoTime();
    boolean readable = false;
    try {
      readable = machine.gpus().gpus().isPresent();
    } catch (RuntimeException e) {
      // A task that throws is not run again.
      LOG.warn("the GPUs of this node cannot be read", e);
    }
    read = readable ? now : now - STALE.toNanos();
  }

  boolean isReady() {
    return System.nanoTime() - read < STALE.toNanos();
  }

  @Override
  public void close() {
    refreshing.shutdownNow();
  }
}
