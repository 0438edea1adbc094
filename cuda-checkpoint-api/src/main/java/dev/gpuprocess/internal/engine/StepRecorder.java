package dev.gpuprocess.internal.engine;

import dev.gpuprocess.progress.Step;
import dev.gpuprocess.progress.StepListener;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import jdk.jfr.FlightRecorder;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Measures the steps of a verb and reports them to the listener, the log and Flight Recorder. */
public final class StepRecorder {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** What the recorders of one verb have in common, whose steps may overlap. */
  private static final class Shared {

    private final List<Step> taken;
    private @Nullable Throwable thrownByListener;

    Shared(List<Step> before) {
      this.taken = new ArrayList<>(before);
    }

    synchronized void add(Step step) {
      taken.add(step);
    }

    synchronized List<Step> taken() {
      return List.copyOf(taken);
    }

    synchronized void thrown(Throwable e) {
      if (thrownByListener == null) {
        thrownByListener = e;
      } else if (thrownByListener != e) {
        thrownByListener.addSuppressed(e);
      }
    }

    synchronized @Nullable Throwable takeThrown() {
      Throwable thrown = thrownByListener;
      thrownByListener = null;
      return thrown;
    }
  }

  private final StepListener listener;
  private final int pid;
  private final Shared shared;

  private StepRecorder(StepListener listener, int pid, Shared shared) {
    this.listener = listener;
    this.pid = pid;
    this.shared = shared;
  }

  /** Appends to earlier steps. */
  public StepRecorder(StepListener listener, int pid, List<Step> before) {
    this(listener, pid, new Shared(before));
  }

  /** For the steps of one member, which may be taken at the same time as those of others. */
  public StepRecorder of(int member) {
    return new StepRecorder(listener, member, shared);
  }

  /** All steps up to now. */
  public List<Step> taken() {
    return shared.taken();
  }

  /** Runs a step that moves a known number of bytes, or 0. */
  public void run(String name, long bytes, Runnable body) {
    run(
        name,
        () -> {
          body.run();
          return bytes;
        },
        moved -> moved);
  }

  /** Runs a step that moves a known number of bytes and tells how it was done. */
  public void runNoted(String name, long bytes, Supplier<String> body) {
    String unused = run(name, body, note -> bytes, note -> note);
  }

  /** Runs a step whose result tells how many bytes it moved. */
  public <T> T run(String name, Supplier<T> body, ToLongFunction<T> bytes) {
    return run(name, body, bytes, value -> "");
  }

  /** Runs a step whose result tells how many bytes it moved, and how. */
  public <T> T run(
      String name, Supplier<T> body, ToLongFunction<T> bytes, Function<T, String> note) {
    StepEvent event = event(name);
    tell(l -> l.started(name, pid));
    long began = System.nanoTime();
    try {
      T value = body.get();
      Duration took = Duration.ofNanos(System.nanoTime() - began);
      Step step = new Step(name, pid, took, bytes.applyAsLong(value), note.apply(value));
      record(event, "done", step.bytes(), step.note());
      finished(step);
      return value;
    } catch (RuntimeException e) {
      failed(name, e, event);
      tell(l -> l.failed(name, pid, e));
      throw e;
    } catch (Error e) {
      failed(name, e, event);
      throw e;
    }
  }

  /**
   * The event of a step that begins; none while nobody has asked for Flight Recorder, because
   * making the first event sets all of it up, which takes a fifth of a second. So a step that had
   * begun before a recording is not in it.
   */
  private @Nullable StepEvent event(String name) {
    if (!FlightRecorder.isInitialized()) {
      return null;
    }
    StepEvent event = new StepEvent(name, pid);
    event.begin();
    return event;
  }

  private static void record(@Nullable StepEvent event, String outcome, long bytes, String note) {
    if (event != null) {
      event.outcome = outcome;
      event.bytes = bytes;
      event.note = note;
      event.commit();
    }
  }

  private void failed(String name, Throwable why, @Nullable StepEvent event) {
    record(event, why.getClass().getSimpleName(), 0, "");
    LOG.info("process {}: {} failed: {}", pid, name, why.toString());
  }

  /**
   * Throws an Error that a listener threw, such as an AssertionError. Called only where the process
   * may stay as it is.
   */
  public void rethrow() {
    Throwable thrown = shared.takeThrown();
    if (thrown != null) {
      StepRecorder.<RuntimeException>sneak(thrown);
    }
  }

  /** A listener written in another language may throw anything. */
  @SuppressWarnings("unchecked")
  private static <T extends Throwable> void sneak(Throwable thrown) throws T {
    throw (T) thrown;
  }

  private void finished(Step step) {
    shared.add(step);
    LOG.info(
        "process {}: {} in {} ms, {} bytes{}",
        pid,
        step.name(),
        step.duration().toMillis(),
        step.bytes(),
        step.note().isEmpty() ? "" : ", " + step.note());
    tell(l -> l.finished(step));
  }

  private void tell(Consumer<StepListener> news) {
    try {
      news.accept(listener);
    } catch (RuntimeException e) {
      // A failing display is no reason to lose the state object of a process that has moved.
      LOG.warn("a step listener failed", e);
    } catch (Throwable e) {
      // It must not stop the process half way: it is thrown once the process is in a state where it
      // may stay.
      shared.thrown(e);
    }
  }
}
