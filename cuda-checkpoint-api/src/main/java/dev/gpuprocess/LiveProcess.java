package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.engine.GpuMemoryLostException;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.ProcessMember;
import dev.gpuprocess.report.Step;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * What the objects of all states have in common. Its public methods are not final, so that the
 * compiler declares them in the public types as well, where reflection can call them.
 */
abstract class LiveProcess {

  private static final Set<ProcessState> SETTLED =
      Set.of(
          ProcessState.RUNNING,
          ProcessState.LOCKED,
          ProcessState.CHECKPOINTED,
          ProcessState.FAILED);

  final StateHandle self;
  private final ProcessState state;

  LiveProcess(StateHandle self, ProcessState state) {
    this.self = self;
    this.state = state;
  }

  /**
   * The object for the state in which a tree was found: that of the member furthest from running.
   */
  static GpuProcess found(TrackedTree tree) {
    Set<ProcessState> states =
        tree.members().stream()
            .flatMap(each -> Stream.ofNullable(each.lastKnown()))
            .collect(Collectors.toSet());
    StateHandle self = StateHandle.next(tree, List.of());
    if (!SETTLED.containsAll(states)) {
      tree.requireNoVerb("inspect");
      throw new FixAndRetryException(
          FixAndRetryException.Reason.WRONG_STATE,
          "process %s has the members %s: wait until their controllers are done"
              .formatted(tree.root.pid(), tree.members().stream().map(LiveProcess::text).toList()),
          Failure.of("inspect", tree.root.pid()));
    }
    if (states.contains(ProcessState.FAILED)) {
      return new FailedProcess(self);
    }
    if (tree.members().stream().anyMatch(LiveProcess::isPoisoned)) {
      return new PoisonedProcess(self);
    }
    if (states.contains(ProcessState.CHECKPOINTED)) {
      return new CheckpointedProcess(self);
    }
    return states.contains(ProcessState.LOCKED)
        ? new LockedProcess(self)
        : new RunningProcess(self);
  }

  private static String text(TrackedProcess member) {
    return member.pid() + " " + member.lastKnown();
  }

  static boolean isPoisoned(TrackedProcess member) {
    return member.lastKnown() == ProcessState.CHECKPOINTED && member.isPoisoned();
  }

  /**
   * Which process this is: the root of its tree.
   *
   * @return pid and start time
   */
  public ProcessIdentity identity() {
    return self.tree().root;
  }

  /**
   * Returns the CUDA processes that are known as members now and have not ended.
   *
   * @return the root first if it is one, parents before children
   */
  public List<ProcessMember> members() {
    Optional<GpuReading> reading = self.tree().context.inventory().read();
    return self.tree().members().stream()
        .filter(each -> each.identity.isAlive())
        .map(each -> member(each, reading))
        .toList();
  }

  private static ProcessMember member(TrackedProcess process, Optional<GpuReading> reading) {
    GpuUsage held =
        process.lastKnown() == ProcessState.CHECKPOINTED
            ? process.held()
            : GpuUsage.of(process.pid(), reading);
    return new ProcessMember(
        process.identity, ProcFs.commandLine(process.pid()), held.known(), process.lastKnown());
  }

  /** Returns the label that the journal has of a member. */
  public Optional<String> label() {
    return self.tree().members().stream()
        .flatMap(member -> Stream.ofNullable(member.label()))
        .findFirst();
  }

  /**
   * Waits until the root has ended.
   *
   * @return false when the time is up
   */
  public boolean awaitExit(Duration limit) {
    return Polling.until(Durations.notNegative("limit", limit), () -> !identity().isAlive());
  }

  /**
   * The state this object stands for. The process itself may have moved on.
   *
   * @return the state that the driver gives such a process
   */
  public ProcessState state() {
    return state;
  }

  /**
   * What was done to get here since the process was taken, in the order in which it ended.
   *
   * @return the steps with their durations and bytes
   */
  public List<Step> steps() {
    return self.steps();
  }

  /**
   * Runs a verb that may restore to the GPU. If a member was poisoned, the caller gets what is left
   * of the process.
   */
  final <T> T orPoisoned(Supplier<T> verb) {
    try {
      return verb.get();
    } catch (RuntimeException e) {
      boolean isLost =
          Stream.concat(Stream.of(e), Arrays.stream(e.getSuppressed()))
              .anyMatch(GpuMemoryLostException.class::isInstance);
      if (!isLost) {
        throw e;
      }
      StateHandle left = StateHandle.next(self.tree(), List.of());
      throw PoisonedProcessException.of(e, new PoisonedProcess(left));
    }
  }

  /** How the state is called in a sentence. */
  String condition() {
    return state.name().toLowerCase(Locale.ROOT);
  }

  @Override
  public String toString() {
    int members = self.tree().members().size();
    return "process "
        + identity().pid()
        + ", "
        + condition()
        + (self.tree().isSingle() ? "" : ", " + members + (members == 1 ? " member" : " members"));
  }
}
