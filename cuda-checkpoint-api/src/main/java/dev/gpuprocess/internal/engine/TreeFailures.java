package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.TreeFailure;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Adds to the failure of a verb on several members where each of them was left. */
public final class TreeFailures {

  private TreeFailures() {}

  /**
   * Looks at every member. Does nothing for a single process, and where a plugin of CRIU moves the
   * GPU state.
   */
  public static void tell(TreeOperation operation, Throwable why) {
    TrackedTree tree = operation.tree();
    if (tree.isSingle() || tree.plugin() != null || !(why instanceof GpuCheckpointException told)) {
      return;
    }
    List<TreeFailure.Member> members =
        operation.each().stream()
            .map(each -> new TreeFailure.Member(each.pid(), each.stateNow()))
            .toList();
    Set<Long> failed =
        Stream.concat(Stream.of(why), Arrays.stream(why.getSuppressed()))
            .filter(GpuCheckpointException.class::isInstance)
            .map(each -> ((GpuCheckpointException) each).failure().pid())
            .collect(Collectors.toSet());
    List<Integer> ofThose =
        members.stream()
            .map(TreeFailure.Member::pid)
            .filter(pid -> failed.contains((long) pid))
            .toList();
    told.inTree(new TreeFailure(operation.root().pid(), ofThose, members));
  }
}
