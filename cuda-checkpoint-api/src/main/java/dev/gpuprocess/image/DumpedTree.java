package dev.gpuprocess.image;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A process tree as its images describe it.
 *
 * @param imageVersion the version of CRIU's image format
 * @param uptime how long the machine had been running at the dump
 * @param tcpClosed whether connected TCP sockets were dumped as closed
 * @param plugins the CRIU plugins that took part; a restore needs them too
 * @param namespaces the namespaces that the root does not share with CRIU, by the kernel's names
 *     ({@code pid}, {@code net}, {@code mnt}, {@code ipc}, {@code uts}, {@code user}, {@code
 *     cgroup}, {@code time})
 * @param processes all processes, parents before children; the root first
 * @param report what the dump took; null where CRIU's statistics are not beside the images
 */
public record DumpedTree(
    int imageVersion,
    Duration uptime,
    boolean tcpClosed,
    List<String> plugins,
    Set<String> namespaces,
    List<DumpedProcess> processes,
    @Nullable DumpReport report) {

  /** Copies the collections. */
  public DumpedTree {
    plugins = List.copyOf(plugins);
    namespaces = Set.copyOf(namespaces);
    processes = List.copyOf(processes);
  }

  /**
   * Finds a process.
   *
   * @param pid as inside the tree's own pid namespace
   * @return empty when it is not in the tree
   */
  public Optional<DumpedProcess> process(int pid) {
    return processes.stream().filter(process -> process.pid() == pid).findFirst();
  }

  /**
   * The root of the tree.
   *
   * @return the first of {@link #processes()}
   */
  public DumpedProcess root() {
    return processes.get(0);
  }

  /**
   * The tree as an indented list: a line for each process with its memory, and below it its threads
   * and open files.
   */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder();
    for (DumpedProcess process : processes) {
      String indent = "  ".repeat(depth(process));
      Stream.of(process.toString().split("\n"))
          .forEach(line -> text.append(indent).append(line).append('\n'));
    }
    return text.toString().stripTrailing();
  }

  private int depth(DumpedProcess process) {
    int depth = 0;
    Optional<DumpedProcess> parent = process(process.parent());
    // A manipulated image may describe a cycle.
    while (parent.isPresent() && depth < processes.size()) {
      depth++;
      parent = process(parent.get().parent());
    }
    return depth;
  }
}
