package dev.gpuprocess.error;

import dev.gpuprocess.cuda.ProcessState;
import java.util.List;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * What became of the members of a job on which a verb failed. Immutable.
 *
 * @param root the pid of the root of the job's process tree
 * @param failed the pids of the members on which something failed
 * @param members all members that live, as they were left
 */
public record JobFailure(int root, List<Integer> failed, List<Member> members) {

  /**
   * A member of the job.
   *
   * @param pid which
   * @param state where it was left; null where that could not be read
   */
  public record Member(int pid, @Nullable ProcessState state) {

    @Override
    public String toString() {
      return pid + (state == null ? " in a state that is not known" : " " + state);
    }
  }

  /** Copies the lists. */
  public JobFailure {
    failed = List.copyOf(failed);
    members = List.copyOf(members);
  }

  /**
   * For a message.
   *
   * @return such as {@code job 10: failed for 1 of 2 members, which are left as 11 RUNNING, 12
   *     LOCKED}
   */
  @Override
  public String toString() {
    return members.isEmpty()
        ? "job %s, of which no member is left".formatted(root)
        : "job %s: failed for %s of %s members, which are left as %s"
            .formatted(
                root,
                failed.size(),
                members.size(),
                members.stream().map(Member::toString).collect(Collectors.joining(", ")));
  }
}
