package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.internal.proc.ProcFs;
import java.util.Optional;

/**
 * The tracer of a tree, which CRIU cannot trace at the same time.
 *
 * @param pid the tracer
 * @param task the task of the tree that is traced
 */
public record Tracer(int pid, int task) {

  /** Searches every thread of the tree. */
  public static Optional<Tracer> of(int root) {
    return ProcFs.tree(root).stream()
        .flatMap(task -> ProcFs.tracer(task).stream().mapToObj(tracer -> new Tracer(tracer, task)))
        .findFirst();
  }

  /** Returns the problem, for the middle of a sentence. */
  public String what() {
    return ProcFs.isCriu(pid)
        ? "another dump of it is running, by process " + pid + " (CRIU)" + controller()
        : "its task " + task + " is traced by " + ProcessDescriptions.process(pid);
  }

  private String controller() {
    return ProcFs.stat(pid)
        .map(stat -> " of " + ProcessDescriptions.process(stat.parent()))
        .orElse("");
  }

  /** Returns the remedy. */
  public String cure() {
    return ProcFs.isCriu(pid)
        ? "wait until that dump has ended"
        : "detach or end that process first";
  }
}
