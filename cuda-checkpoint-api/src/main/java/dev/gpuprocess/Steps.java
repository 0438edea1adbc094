package dev.gpuprocess;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Measures the steps of one process and tells listener, log and flight recorder. */
final class Steps {

  private static final Logger LOG = LoggerFactory.getLogger(GpuProcess.class);

  private final StepListener listener;
  private final int pid;
  private final List<Step> taken;

  /** Continues after the steps that came before. */
  Steps(StepListener listener, int pid, List<Step> before) {
    this.listener = listener;
    this.pid = pid;
    this.taken = new ArrayList<>(before);
  }

  /** All steps up to now. */
  List<Step> taken() {
    return List.copyOf(taken);
  }

  /** Takes a step that moves a known number of bytes, or 0. */
  void run(String name, long bytes, Runnable body) {
    run(
        name,
        () -> {
          body.run();
          return bytes;
        },
        moved -> moved);
  }

  /** Takes a step whose result tells the bytes moved. */
  <T> T run(String name, Supplier<T> body, ToLongFunction<T> bytes) {
    StepEvent event = new StepEvent(name, pid);
    event.begin();
    tell(l -> l.started(name, pid));
    long began = System.nanoTime();
    try {
      T value = body.get();
      finished(name, System.nanoTime() - began, bytes.applyAsLong(value), event);
      return value;
    } catch (RuntimeException e) {
      event.outcome = e.getClass().getSimpleName();
      LOG.info("process {}: {} failed: {}", pid, name, e.getMessage());
      tell(l -> l.failed(name, pid, e));
      throw e;
    } finally {
      event.commit();
    }
  }

  private void finished(String name, long nanos, long bytes, StepEvent event) {
    Step step = new Step(name, pid, Duration.ofNanos(nanos), bytes);
    taken.add(step);
    event.bytes = bytes;
    event.outcome = "done";
    LOG.info("process {}: {} in {} ms, {} bytes", pid, name, nanos / 1_000_000, bytes);
    tell(l -> l.finished(step));
  }

  private void tell(Consumer<StepListener> news) {
    try {
      news.accept(listener);
    } catch (RuntimeException e) {
      // The process has moved: losing its state object over a display would be worse.
      LOG.warn("a step listener failed", e);
    }
  }
}
