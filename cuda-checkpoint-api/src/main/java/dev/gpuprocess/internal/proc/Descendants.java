package dev.gpuprocess.internal.proc;

import dev.gpuprocess.error.Failure;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** The descendants of a process ({@code /proc/PID/task/TID/children}). */
final class Descendants {

  private static final int MOST = 1 << 15;

  private Descendants() {}

  /** Returns the descendants, parents before children. */
  static List<Integer> of(long pid) {
    Set<Integer> found = new LinkedHashSet<>();
    Deque<Long> todo = new ArrayDeque<>(List.of(pid));
    while (!todo.isEmpty()) {
      long parent = todo.remove();
      for (int thread : ProcFs.threads(parent)) {
        for (int child : childrenOf(parent, thread)) {
          if (found.add(child)) {
            todo.add((long) child);
          }
        }
        if (found.size() > MOST) {
          throw new ProcessUnreadableException(
              "process %s has more than %s descendants, too many to look at: end some of them"
                  .formatted(pid, MOST),
              Failure.of("read children", pid));
        }
      }
    }
    return List.copyOf(found);
  }

  /** Returns the processes that a thread has started, or adopted as the first of its process. */
  static List<Integer> childrenOf(long pid, int thread) {
    return Arrays.stream(children(ProcFs.taskDirectory(pid, thread)).split(" "))
        .map(String::strip)
        .filter(child -> !child.isEmpty())
        .map(Integer::valueOf)
        .toList();
  }

  private static String children(Path task) {
    Path file = task.resolve("children");
    Optional<String> children = ProcFile.text(file);
    if (children.isEmpty() && !ProcFile.isGone(task) && ProcFile.isGone(file)) {
      throw new ProcessUnreadableException(
          "this kernel does not list the children of a process: use one built with"
              + " CONFIG_PROC_CHILDREN, which CRIU needs too",
          Failure.of("read children", 0));
    }
    return children.orElse("");
  }
}
