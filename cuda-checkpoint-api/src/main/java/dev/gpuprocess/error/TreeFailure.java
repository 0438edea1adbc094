package dev.gpuprocess.error;

import dev.gpuprocess.cuda.ProcessState;
import java.io.Serializable;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Where the members of a process tree were left by a verb that failed. Immutable.
 *
 * @param root the pid of the root
 * @param failed the pids of the members on which something failed
 * @param members the state in which each member was left, by its pid; null where that could not be
 *     read, as of one that has ended
 */
public record TreeFailure(
    int root, List<Integer> failed, Map<Integer, @Nullable ProcessState> members)
    implements Serializable {

  /** Copies the collections. */
  public TreeFailure {
    failed = List.copyOf(failed);
    members = Collections.unmodifiableMap(new LinkedHashMap<>(members));
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
                members.entrySet().stream()
                    .map(each -> each.getKey() + " " + left(each.getValue()))
                    .collect(Collectors.joining(", ")));
  }

  private static String left(@Nullable ProcessState state) {
    return state == null ? "in a state that is not known" : state.toString();
  }
}
