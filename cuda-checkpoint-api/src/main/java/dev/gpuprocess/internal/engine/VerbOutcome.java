package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.error.TreeFailure;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Adds to the exception of a verb the state in which the verb left the process and its members. */
public final class VerbOutcome {

  private VerbOutcome() {}

  /**
   * Adds the state of every member, if there are several. Does nothing where a plugin of CRIU moves
   * the GPU state.
   */
  public static void addMembers(TreeOperation operation, Throwable why) {
    TrackedTree tree = operation.tree();
    if (tree.isSingle()
        || tree.plugin() != null
        || !(why instanceof GpuCheckpointException failure)) {
      return;
    }
    Map<Integer, @Nullable ProcessState> members = new LinkedHashMap<>();
    operation.members().forEach(each -> members.put(each.pid(), each.stateNow()));
    Set<Long> failed =
        Stream.concat(Stream.of(why), Arrays.stream(why.getSuppressed()))
            .filter(GpuCheckpointException.class::isInstance)
            .map(each -> ((GpuCheckpointException) each).failure().pid())
            .collect(Collectors.toSet());
    List<Integer> failedMembers =
        members.keySet().stream().filter(pid -> failed.contains((long) pid)).toList();
    failure.inTree(new TreeFailure(operation.root().pid(), failedMembers, members));
  }

  /** Adds the state of the process after the rollback, to the message and to the data. */
  static void addState(TreeOperation operation, GpuCheckpointException why) {
    Failure known = why.failure();
    ProcessState now = operation.stateNow();
    ProcessState after = now == null ? known.after() : now;
    ProcessState before = known.before() == null ? operation.before() : known.before();
    why.leftAt(
        new Failure(
            known.operation(),
            known.pid(),
            before,
            after,
            known.elapsed().isZero() ? operation.elapsed() : known.elapsed(),
            known.cudaResult(),
            known.fate()),
        isInMessage(why) ? "" : words(operation, before, now));
  }

  private static boolean isInMessage(GpuCheckpointException why) {
    return why.tree().isPresent()
        || why instanceof GpuMemoryLostException
        || why instanceof NoSuchProcessException
        || (why instanceof StaleStateException && why.failure().after() != null);
  }

  private static String words(
      TreeOperation operation, @Nullable ProcessState before, @Nullable ProcessState now) {
    TrackedTree tree = operation.tree();
    String name = "pid " + tree.root.pid();
    if (operation.isAbandoned()) {
      return name
          + " is brought back to running when the driver's call returns; until then other verbs are"
          + " refused";
    }
    if (now == null) {
      return "";
    }
    String is = name + (now == before ? " is still " : " is ");
    String where = "; " + tree.inspection() + " finds it";
    return switch (now) {
      case RUNNING -> name + (operation.hasMoved() ? " is running again" : " is still running");
      case LOCKED -> is + "locked" + where;
      case CHECKPOINTED -> is + "suspended" + where;
      default -> is + now + where;
    };
  }
}
