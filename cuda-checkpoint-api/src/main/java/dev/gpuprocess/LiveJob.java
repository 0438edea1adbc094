package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.WrongStateException;
import dev.gpuprocess.gpu.GpuReading;
import dev.gpuprocess.internal.engine.GpuMemoryLostException;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedJob;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** What the objects of all states of a job have in common. */
abstract class LiveJob {

  final StateHandle self;
  private final ProcessState state;

  LiveJob(StateHandle self, ProcessState state) {
    this.self = self;
    this.state = state;
  }

  /** The object for a job that was just looked at. */
  static GpuJob found(TrackedJob job) {
    Set<ProcessState> states =
        job.members().stream()
            .flatMap(each -> Stream.ofNullable(each.lastKnown()))
            .collect(Collectors.toSet());
    StateHandle self = StateHandle.next(job, List.of());
    if (!Set.of(ProcessState.RUNNING, ProcessState.LOCKED, ProcessState.CHECKPOINTED)
        .containsAll(states)) {
      throw unfit(job);
    }
    List<ProcessIdentity> poisoned =
        job.members().stream()
            .filter(each -> each.lastKnown() == ProcessState.CHECKPOINTED && each.isPoisoned())
            .map(each -> each.identity)
            .toList();
    if (!poisoned.isEmpty()) {
      throw new PoisonedJobException(job.root, poisoned);
    }
    if (states.contains(ProcessState.CHECKPOINTED)) {
      return new CheckpointedJob(self);
    }
    return states.contains(ProcessState.LOCKED) ? new LockedJob(self) : new RunningJob(self);
  }

  private static WrongStateException unfit(TrackedJob job) {
    boolean failed =
        job.members().stream().anyMatch(each -> each.lastKnown() == ProcessState.FAILED);
    if (!failed) {
      job.requireNoVerb("inspect");
    }
    return new WrongStateException(
        "job %s has the members %s: %s"
            .formatted(
                job.root.pid(),
                job.members().stream()
                    .map(each -> each.pid() + " " + each.lastKnown())
                    .collect(Collectors.joining(", ")),
                failed
                    ? "end those that are FAILED (GpuProcess.inspect gives each), then look again"
                    : "wait until their controllers are done"),
        Failure.of("inspect", job.root.pid()));
  }

  /**
   * The root of the process tree.
   *
   * @return its pid and start time
   */
  public final ProcessIdentity root() {
    return self.job().root;
  }

  /**
   * The CUDA processes that are known as members now and have not ended.
   *
   * @return the root first if it is one, parents before children
   */
  public final List<JobMember> members() {
    Optional<GpuReading> reading = self.job().context.inventory().read();
    return self.job().members().stream()
        .filter(each -> each.identity.isAlive())
        .map(each -> member(each, reading))
        .toList();
  }

  private static JobMember member(TrackedProcess process, Optional<GpuReading> reading) {
    Holdings held =
        process.lastKnown() == ProcessState.CHECKPOINTED
            ? process.held()
            : Holdings.of(process.pid(), reading);
    return new JobMember(
        process.identity, ProcFs.commandLine(process.pid()), held.known(), process.lastKnown());
  }

  /**
   * The state this object stands for. The members themselves may have moved on.
   *
   * @return the state that the driver gives them
   */
  public final ProcessState state() {
    return state;
  }

  /**
   * What was done to get here since the job was taken, in the order in which it ended.
   *
   * @return the steps with their durations and bytes
   */
  public final List<Step> steps() {
    return self.steps();
  }

  /** Runs a verb that may restore to the GPU, and names all members that it poisoned. */
  final <T> T orPoisoned(Supplier<T> verb) {
    try {
      return verb.get();
    } catch (RuntimeException e) {
      List<Long> lost =
          Stream.concat(Stream.of(e), Arrays.stream(e.getSuppressed()))
              .filter(GpuMemoryLostException.class::isInstance)
              .map(each -> ((GpuMemoryLostException) each).failure().pid())
              .distinct()
              .toList();
      if (lost.isEmpty()) {
        throw e;
      }
      throw new PoisonedJobException(
          e,
          root(),
          self.job().members().stream()
              .map(each -> each.identity)
              .filter(each -> lost.contains((long) each.pid()))
              .toList());
    }
  }

  @Override
  public final String toString() {
    return "job " + root().pid() + ", " + state.name().toLowerCase(Locale.ROOT);
  }
}
