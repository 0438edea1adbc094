package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.FailedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.ResumeOptions;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** Processes on a GPU that has memory for half of them; no other faults are injected. */
final class SoakCrowd implements AutoCloseable {

  private static final int JOBS = 4;
  private static final int FITTING = 2;

  /** More than the memory that a restore leaves free for safety. */
  private static final long JOB_BYTES = 96L << 20;

  private static final long SPARE_BYTES = 84L << 20;
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final SimulatedDriver machine;
  private final Path state;
  private final GpuCheckpoints checkpoints;
  private final List<Subject> jobs = new ArrayList<>();

  SoakCrowd(Path state) {
    this.state = state;
    this.machine =
        SimulatedDriver.builder()
            .memory(FITTING * JOB_BYTES + SPARE_BYTES)
            .contextMemory(JOB_BYTES)
            .create();
    this.checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(SimulatedMachine.make(state))
            .build();
    Stream.generate(() -> Subject.start(machine))
        .limit(JOBS)
        .peek(job -> checkpoints.process(job.pid()).suspend())
        .forEach(jobs::add);
  }

  Path machine() {
    return machine.directory();
  }

  Path state() {
    return state;
  }

  List<Integer> pids() {
    return jobs.stream().map(Subject::pid).toList();
  }

  /** Suspends all, and resumes one after the other for a moment. Kills those that do not resume. */
  void judge(Consumer<Violation> violations) {
    jobs.forEach(job -> putAside(job.pid()));
    List<Subject> broken = new ArrayList<>();
    for (Subject job : jobs) {
      fault(job)
          .ifPresent(
              why -> {
                broken.add(job);
                violations.accept(
                    new Violation(
                        Violation.Kind.LOST,
                        "process %d of the crowd: ".formatted(job.pid()) + why));
              });
    }
    broken.forEach(Subject::close);
    jobs.removeAll(broken);
  }

  private Optional<String> fault(Subject job) {
    try {
      AtomicReference<String> busy = new AtomicReference<>();
      if (!Waiting.until(PATIENCE, () -> isBroughtBack(job.pid(), busy))) {
        return Optional.of(busy.get());
      }
      Optional<String> fault = job.fault();
      putAside(job.pid());
      return fault;
    } catch (GpuCheckpointException e) {
      return Optional.of(e.getMessage());
    }
  }

  /**
   * A controller whose suspend failed may still wait for room, or just now bring it back itself.
   */
  private boolean isBroughtBack(int pid, AtomicReference<String> busy) {
    try {
      if (checkpoints.inspect(pid) instanceof CheckpointedProcess suspended) {
        // The GPU is empty now, so it need not be known what the job held.
        suspended.resume(ResumeOptions.builder().needs(Map.of()).build());
      }
      return true;
    } catch (GpuCheckpointException e) {
      busy.set(e.getMessage());
      return false;
    }
  }

  /** Waits for abandoned calls. */
  private void putAside(int pid) {
    Waiting.until(
        PATIENCE,
        () -> {
          try {
            GpuProcess found = checkpoints.inspect(pid);
            if (found instanceof LockedProcess locked) {
              locked.checkpoint();
            } else if (found instanceof RunningProcess running) {
              running.suspend();
            }
            return found instanceof FailedProcess
                || checkpoints.inspect(pid) instanceof CheckpointedProcess;
          } catch (GpuCheckpointException e) {
            return false;
          }
        });
  }

  @Override
  public void close() {
    jobs.forEach(Subject::close);
    machine.close();
  }
}
