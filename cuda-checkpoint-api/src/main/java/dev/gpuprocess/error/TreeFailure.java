package dev.gpuprocess.error;

import dev.gpuprocess.cuda.ProcessState;
import java.util.List;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Where the members of a process tree were left by a verb that failed. Immutable.
 *
 * @param root the pid of the root
 * @param failed the pids of the members on which something failed
 * @param members all members, as they were left
 */
public record TreeFailure(int root, List<Integer> failed, List<Member> members) {

  /**
   * A member.
   *
   * @param pid which
   * @param state where it was left; null where that could not be read, as of one that has ended
   */
  public record Member(int pid, @Nullable ProcessState state) {

    @Override
    public String toString() {
      return pid + (state == null ? " in a state that is not known" : " " + state);
    }
  }

  /** Copies the lists. */
  public TreeFailure {
    failed = List.copyOf(failed);
    members = List.copyOf(members);
  }

  /**
   * For a message.
   *
   * @return such as {@code process 10: failed for 1 of 2 members, which are left as 11 RUNNING, 12
   *     LOCKED}
   */
  @Override
  public String toString() {
    return members.isEmpty()
        ? "process %s, of which no member is left".formatted(root)
        : "process %s: failed for %s of %s members, which are left as %s"
            .formatted(
                root,
                failed.size(),
                members.size(),
                members.stream().map(Member::toString).collect(Collectors.joining(", ")));
  }
}
