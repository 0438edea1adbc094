package dev.gpuprocess.internal.proc;

import dev.gpuprocess.error.Failure;
import java.nio.file.Path;
import java.util.ArrayDeque;
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
        for (String child : children(ProcFs.taskDirectory(parent, thread)).split(" ")) {
          if (!child.isBlank() && found.add(Integer.valueOf(child.strip()))) {
            todo.add(Long.valueOf(child.strip()));
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
