package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.internal.proc.ProcFs;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Who traces a tree: CRIU cannot trace it at the same time.
 *
 * @param pid who
 * @param task the task of the tree that is traced
 */
public record Tracer(int pid, int task) {

  private static final Pattern PROGRAM = Pattern.compile("(?:.*/)?criu(?:[.-].*)?", Pattern.DOTALL);

  /** Looks at every thread of the tree. */
  public static Optional<Tracer> of(int root) {
    return Stream.concat(Stream.of(root), ProcFs.descendants(root).stream())
        .flatMap(process -> ProcFs.threads(process).stream())
        .flatMap(
            task ->
                ProcessDescriptions.tracer(task).map(tracer -> new Tracer(tracer, task)).stream())
        .findFirst();
  }

  /** What is in the way. */
  public String what() {
    return isDump()
        ? "another dump is at work on it, by process " + pid + " (CRIU)" + controller()
        : "its task " + task + " is traced by " + ProcessDescriptions.process(pid);
  }

  private String controller() {
    return ProcFs.stat(pid)
        .map(stat -> " of " + ProcessDescriptions.process(stat.parent()))
        .orElse("");
  }

  /** What to do. */
  public String cure() {
    return isDump() ? "wait until that one has ended" : "end that first";
  }

  private boolean isDump() {
    // It may be run by the dynamic loader.
    return ProcFs.commandLine(pid).stream()
        .anyMatch(word -> word.equals("swrk") || PROGRAM.matcher(word).matches());
  }
}
