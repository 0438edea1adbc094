package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Measures the steps of a verb and reports them to the listener, the log and Flight Recorder. */
public final class StepRecorder {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The common part of the recorders of one verb, whose steps may overlap. */
  private static final class Shared {

    private final List<Step> taken;
    private @Nullable Error thrownByListener;

    Shared(List<Step> before) {
      this.taken = new ArrayList<>(before);
    }

    synchronized void add(Step step) {
      taken.add(step);
    }

    synchronized List<Step> taken() {
      return List.copyOf(taken);
    }

    synchronized void thrown(Error e) {
      if (thrownByListener == null) {
        thrownByListener = e;
      } else if (thrownByListener != e) {
        thrownByListener.addSuppressed(e);
      }
    }

    synchronized @Nullable Error takeThrown() {
      Error thrown = thrownByListener;
      thrownByListener = null;
      return thrown;
    }
  }

  /** A step as an event of Java Flight Recorder. */
  @Name("dev.gpuprocess.report.Step")
  @Label("GPU process step")
  @Category("GPU process")
  @Description("One step of taking a process off its GPU or bringing it back")
  @StackTrace(false)
  static final class StepEvent extends Event {

    @Label("Step")
    final String step;

    @Label("Process")
    final int pid;

    @Label("Bytes moved")
    @DataAmount
    long bytes;

    @Label("How it was done")
    String note = "";

    @Label("Outcome")
    String outcome = "";

    StepEvent(String step, int pid) {
      this.step = step;
      this.pid = pid;
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

  /** Creates a recorder that appends to earlier steps. */
  public StepRecorder(StepListener listener, int pid, List<Step> before) {
    this(listener, pid, new Shared(before));
  }

  /** Returns a recorder for the steps of one member, which may overlap those of other members. */
  public StepRecorder of(int member) {
    return new StepRecorder(listener, member, shared);
  }

  /** Returns all steps up to now. */
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

  /** Runs a step that moves a known number of bytes and returns a note of how it was done. */
  public void runNoted(String name, long bytes, Supplier<String> body) {
    String unused = run(name, body, note -> bytes, note -> note);
  }

  /** Runs a step whose result has the number of bytes that it moved. */
  public <T> T run(String name, Supplier<T> body, ToLongFunction<T> bytes) {
    return run(name, body, bytes, value -> "");
  }

  /** Runs a step whose result has the number of bytes that it moved, and a note. */
  public <T> T run(
      String name, Supplier<T> body, ToLongFunction<T> bytes, Function<T, String> note) {
    StepEvent event = event(name);
    notifyListener(l -> l.started(name, pid));
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
      notifyListener(l -> l.failed(name, pid, e));
      throw e;
    } catch (Error e) {
      failed(name, e, event);
      notifyListener(l -> l.failed(name, pid, new IllegalStateException(e)));
      throw e;
    }
  }

  /**
   * Begins the event of a step; null while Flight Recorder is not in use, because the first event
   * initializes all of it, which takes a fifth of a second. A step that began before a recording is
   * therefore not in it.
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
    String outcome =
        why instanceof GpuCheckpointException known
            ? known.reason().name()
            : why.getClass().getSimpleName();
    record(event, outcome, 0, "");
    LOG.info("process {}: {} failed: {}", pid, name, why.toString());
  }

  /**
   * Throws an Error that a listener threw, such as an AssertionError. Called only where the process
   * may stay as it is.
   */
  public void rethrow() {
    Error thrown = shared.takeThrown();
    if (thrown != null) {
      throw thrown;
    }
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
    notifyListener(l -> l.finished(step));
  }

  private void notifyListener(Consumer<StepListener> call) {
    try {
      call.accept(listener);
    } catch (Error e) {
      // An Error must not stop the verb half way: it is thrown when the process may stay as it is.
      shared.thrown(e);
    } catch (Throwable e) {
      // A failing display must not lose the state object of a process that has moved. A listener in
      // another language may throw checked exceptions.
      LOG.warn("a step listener failed", e);
      if (e instanceof InterruptedException) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
