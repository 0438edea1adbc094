package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.FailedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.PoisonedProcess;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Runs cases on a machine, one after the other, on the same process as long as it is intact. */
final class JobFaultRunner implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofMinutes(1);
  private static final Duration LOCK = Duration.ofMillis(700);
  private static final Duration HASTE = Duration.ofMillis(300);

  /**
   * What came of a case.
   *
   * @param violations what is wrong, empty in the good case
   * @param thrown what the verb threw, for people
   */
  record Result(JobFaultCase scenario, List<String> violations, String thrown) {

    boolean isGood() {
      return violations.isEmpty();
    }
  }

  private final SimulatedMachine machine;
  private @Nullable JobSubject job;

  JobFaultRunner(SimulatedMachine machine) {
    this.machine = machine;
  }

  Result play(JobFaultCase scenario) {
    JobSubject subject = job == null ? JobSubject.start(machine.driver) : job;
    job = null;
    GpuCheckpoints checkpoints = checkpoints(scenario.hasty());
    RunningProcess running = checkpoints().process(subject.pid());
    machine.driver.faults(scenario.faults().apply(subject).toArray(new Fault[0]));
    Throwable thrown = thrownBy(() -> act(checkpoints, running));
    machine.driver.clearFaults();
    List<String> violations = new ArrayList<>();
    boolean whole;
    try {
      whole = settle(subject, scenario, thrown, violations);
    } catch (RuntimeException e) {
      violations.add("it could not be mended: " + e);
      whole = false;
    }
    if (violations.isEmpty() && whole) {
      job = subject;
    } else {
      subject.close();
    }
    return new Result(scenario, violations, String.valueOf(thrown));
  }

  private static void act(GpuCheckpoints checkpoints, RunningProcess before) {
    // A case with a short deadline is repeated: no fault was injected yet.
    RunningProcess running = checkpoints.process(before.identity().pid());
    CheckpointedProcess parked = running.suspend(LOCK);
    parked.resume();
  }

  private GpuCheckpoints checkpoints() {
    return checkpoints(false);
  }

  private GpuCheckpoints checkpoints(boolean hasty) {
    Timeouts.Builder timeouts = Timeouts.builder().lock(LOCK).memory(HASTE);
    return machine.checkpoints().toBuilder()
        .timeouts((hasty ? timeouts.call(HASTE).transfer(HASTE) : timeouts).build())
        .build();
  }

  private static @Nullable Throwable thrownBy(Runnable verb) {
    return CompletableFuture.runAsync(verb)
        .handle((done, e) -> e == null ? null : Optional.ofNullable(e.getCause()).orElse(e))
        .orTimeout(PATIENCE.toSeconds(), TimeUnit.SECONDS)
        .join();
  }

  /** Recovers, and returns whether the process is intact. */
  private boolean settle(
      JobSubject subject,
      JobFaultCase scenario,
      @Nullable Throwable thrown,
      List<String> violations) {
    if (thrown != null && !(thrown instanceof GpuCheckpointException)) {
      violations.add("it threw " + thrown);
    }
    if (!Waiting.until(PATIENCE, () -> isFree(subject))) {
      violations.add("a call on a member never came back");
      return false;
    }
    boolean failed = endFailed(subject);
    if (failed && !scenario.breaks()) {
      violations.add("a member is FAILED");
    }
    GpuProcess found = found(subject);
    if (thrown == null && !(found instanceof RunningProcess)) {
      violations.add("it was said to run, and is " + found);
    }
    if (found instanceof PoisonedProcess poisoned) {
      if (!(thrown instanceof PoisonedProcessException)) {
        violations.add("it is poisoned, and the verb threw " + thrown);
      }
      poisoned.end();
      requireNoEntries(violations);
      return false;
    }
    mend(found);
    boolean whole = subject.living().size() == JobSubject.MEMBERS;
    if (!whole && !scenario.kills() && !failed) {
      violations.add("a member is gone");
    }
    subject.fault(whole).ifPresent(violations::add);
    requireNoEntries(violations);
    return whole;
  }

  private void requireNoEntries(List<String> violations) {
    if (!machine.journal().isEmpty()) {
      violations.add("the journal has " + machine.journal());
    }
  }

  private boolean isFree(JobSubject subject) {
    StateDirectory state = new StateDirectory(machine.state());
    return subject.living().stream()
        .allMatch(each -> ProcessLock.holder(ProcessKey.of(each), state).isEmpty());
  }

  private boolean endFailed(JobSubject subject) {
    boolean failed = false;
    for (ProcessIdentity each : subject.living()) {
      failed |= endIfFailed(each.pid());
    }
    return failed;
  }

  private boolean endIfFailed(int pid) {
    try {
      GpuProcess found = checkpoints().inspect(pid);
      if (found instanceof FailedProcess broken) {
        broken.end();
        return true;
      }
      return false;
    } catch (NoSuchProcessException | NotCudaProcessException e) {
      // It was killed just now.
      return false;
    }
  }

  private GpuProcess found(JobSubject subject) {
    return Waiting.forValue(
            PATIENCE,
            () -> {
              try {
                return Optional.of(checkpoints().inspect(subject.pid()));
              } catch (OperationInProgressException | OperationTimedOutException e) {
                return Optional.empty();
              }
            })
        .orElseThrow(() -> new IllegalStateException("the job never answers"));
  }

  private static void mend(GpuProcess found) {
    if (found instanceof LockedProcess locked) {
      locked.unlock();
    }
    if (found instanceof CheckpointedProcess parked) {
      parked.resume();
    }
  }

  @Override
  public void close() {
    if (job != null) {
      job.close();
    }
    machine.close();
  }
}
