package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.SnapshotEnd;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeSearch;
import dev.gpuprocess.internal.image.ImageNaming;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A process of which snapshots are made again and again. Other controllers may move it between two
 * snapshots, so it is found again each time.
 */
record SnapshotSubject(EngineContext context, ProcessIdentity root) {

  private static final String VERB = "snapshot";

  /** What it is called in a sentence. */
  String name() {
    return "process " + root.pid();
  }

  /**
   * It, if it is running with all its members.
   *
   * @throws FixAndRetryException with reason WRONG_STATE when it is not
   * @throws dev.gpuprocess.error.OperationInProgressException when a verb is under way that has
   *     taken it from running
   */
  StateHandle running() {
    TrackedTree now = TreeSearch.settled(this::find, SnapshotSubject::state, each -> each, VERB);
    ProcessState state = state(now);
    if (state != ProcessState.RUNNING) {
      throw new FixAndRetryException(
          FixAndRetryException.Reason.WRONG_STATE,
          "no snapshot is made of %s while it is %s".formatted(name(), state),
          failure(state));
    }
    return StateHandle.next(now, List.of());
  }

  /** Whether it, or a member, is locked or checkpointed. */
  boolean isAway() {
    return isAway(state(find()));
  }

  static boolean isAway(@Nullable ProcessState state) {
    return state == ProcessState.LOCKED || state == ProcessState.CHECKPOINTED;
  }

  private TrackedTree find() {
    requireSame(root.isAlive());
    TrackedTree found = TreeSearch.find(context, root.pid(), VERB);
    requireSame(found.root.equals(root));
    return found;
  }

  private void requireSame(boolean same) {
    if (!same) {
      throw new NoSuchProcessException(name() + " has ended", failure(null));
    }
  }

  private Failure failure(@Nullable ProcessState after) {
    return new Failure(VERB, root.pid(), after, after, Duration.ZERO, null, null);
  }

  /** That of the member that is the furthest from running. */
  private static ProcessState state(TrackedTree job) {
    return job.members().stream()
        .flatMap(each -> Stream.ofNullable(each.lastKnown()))
        .max(Comparator.naturalOrder())
        .orElse(ProcessState.RUNNING);
  }

  /** Makes an image of it, which may become a dump while it is made. */
  ProcessImage snapshot(
      StateHandle running, ImageNaming.Place place, DumpOptions options, SnapshotEnd end) {
    InstantSource clock = InstantSource.fixed(place.created());
    return new RunningProcess(running).snapshot(place.directory(), options, clock, end);
  }

  /** Dumps it. */
  ProcessImage dump(ImageNaming.Place place, DumpOptions options) {
    InstantSource clock = InstantSource.fixed(place.created());
    return new RunningProcess(running()).dump(place.directory(), options, clock);
  }

  /** Brings back what a snapshot left suspended, unless others have moved it since. */
  void resume(StateHandle left, ResumeOptions options) {
    StateHandle suspended = StateHandle.next(left.tree(), List.of());
    RunningProcess unused = new CheckpointedProcess(suspended).resume(options);
  }
}
