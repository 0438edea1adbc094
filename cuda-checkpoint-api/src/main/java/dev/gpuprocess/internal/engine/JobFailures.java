package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.JobFailure;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Adds to the failure of a verb on a job what became of all its members. */
public final class JobFailures {

  private JobFailures() {}

  /**
   * Looks at every member. Does nothing where the verb was on a process by itself, or a plugin of
   * CRIU moves the GPU state and nobody is a member.
   */
  public static void tell(JobOperation operation, Throwable why) {
    TrackedJob job = operation.job();
    if (!job.isTree() || job.plugin() != null || !(why instanceof GpuCheckpointException told)) {
      return;
    }
    List<JobFailure.Member> members =
        operation.each().stream()
            .map(each -> new JobFailure.Member(each.pid(), each.stateNow()))
            .toList();
    Set<Long> failed =
        Stream.concat(Stream.of(why), Arrays.stream(why.getSuppressed()))
            .filter(GpuCheckpointException.class::isInstance)
            .map(each -> ((GpuCheckpointException) each).failure().pid())
            .collect(Collectors.toSet());
    List<Integer> ofThose =
        members.stream()
            .map(JobFailure.Member::pid)
            .filter(pid -> failed.contains((long) pid))
            .toList();
    told.inJob(new JobFailure(operation.root().pid(), ofThose, members));
  }
}
