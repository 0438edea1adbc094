package dev.gpuprocess.survival;

import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.options.Cancellation;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** Runs cases on a machine, one after the other. */
final class FaultCaseRunner implements AutoCloseable {

  /** Longer than any deadline of a verb together with its undo. */
  private static final long LONGEST_SECONDS = 60;

  /** Another process may get the pid while the process is on disk. */
  private static final int ATTEMPTS = 3;

  /**
   * What came of a case.
   *
   * @param verdict what became of the process
   * @param violations what else is wrong, empty in the good case
   * @param time how long it took
   */
  record Result(FaultCase scenario, Verdict verdict, List<String> violations, Duration time) {}

  private final SimulatedMachine machine;
  private final ExecutorService verbs =
      Executors.newSingleThreadExecutor(
          body -> {
            Thread thread = new Thread(body, "verb");
            thread.setDaemon(true);
            return thread;
          });

  FaultCaseRunner(SimulatedMachine machine) {
    this.machine = machine;
  }

  /** Returns the moments of a task without a fault. */
  List<String> rehearse(Task task) {
    try (Subject subject = Subject.start(machine.driver)) {
      task.prepare(setup(subject, false));
      FaultCaseContext setup = setup(subject, false);
      task.act(setup);
      return setup.moments().seen();
    } finally {
      machine.removeImages();
    }
  }

  private FaultCaseContext setup(Subject subject, boolean hasty) {
    FaultPoints moments = new FaultPoints();
    return new FaultCaseContext(
        machine,
        subject,
        moments,
        machine.checkpoints(moments, hasty),
        new Cancellation(),
        new CopyOnWriteArrayList<>());
  }

  Result play(FaultCase scenario) {
    long began = System.nanoTime();
    for (int attempt = 1; ; attempt++) {
      try {
        return playOnce(scenario, began);
      } catch (PidTakenException e) {
        if (attempt == ATTEMPTS) {
          return lost(scenario, e, began);
        }
      } catch (RuntimeException e) {
        return lost(scenario, e, began);
      }
    }
  }

  private static Result lost(FaultCase scenario, RuntimeException e, long began) {
    StringWriter trace = new StringWriter();
    e.printStackTrace(new PrintWriter(trace));
    return new Result(scenario, Verdict.LOST, List.of(trace.toString()), since(began));
  }

  private Result playOnce(FaultCase scenario, long began) {
    try (Subject subject = Subject.start(machine.driver)) {
      scenario.task().prepare(setup(subject, false));
      FaultCaseContext setup = setup(subject, scenario.injected().hasty());
      scenario.injected().setting().accept(setup);
      RuntimeException thrown = run(setup, () -> scenario.task().act(setup));
      Oracle judge = new Oracle(setup, scenario.injected(), thrown);
      Verdict verdict = judge.verdict();
      return new Result(scenario, verdict, judge.violations(), since(began));
    } finally {
      machine.calm();
      machine.removeImages();
    }
  }

  private static Duration since(long nanos) {
    return Duration.ofNanos(System.nanoTime() - nanos);
  }

  /** Runs the task, then ends the fault; returns the exception of the task. */
  private @Nullable RuntimeException run(FaultCaseContext setup, Runnable act) {
    Future<?> verb = verbs.submit(act);
    try {
      try {
        return outcome(verb);
      } finally {
        setup.awaitLate();
        setup.signal(Signals.CONTINUE);
        machine.calm();
      }
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    } catch (TimeoutException e) {
      return new IllegalStateException("the verb did not end in time", e);
    }
  }

  private static @Nullable RuntimeException outcome(Future<?> verb) throws TimeoutException {
    try {
      verb.get(LONGEST_SECONDS, TimeUnit.SECONDS);
      return null;
    } catch (ExecutionException e) {
      return e.getCause() instanceof RuntimeException own
          ? own
          : new IllegalStateException(e.getCause());
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    verbs.shutdownNow();
    machine.close();
  }
}
