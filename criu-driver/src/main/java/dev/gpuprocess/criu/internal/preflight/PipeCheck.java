package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.Poll;
import dev.gpuprocess.internal.linux.ProcessDescriptor;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.OptionText;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Anonymous pipes. CRIU silently dumps one that leads out of the tree, and a restore creates a new
 * pipe without its other end: the next write kills the process, and the next read returns end of
 * file.
 */
final class PipeCheck {

  private static final Pattern PIPE = Pattern.compile("pipe:\\[(\\d{1,18})]");
  private static final int ACCESS = 3;
  private static final int READ = 0;
  private static final int WRITE = 1;
  private static final List<String> STANDARD =
      List.of("standard input", "standard output", "standard error");

  private final FindingCollector findings;
  private final DumpOptions options;
  private final List<Integer> tree;
  private final Map<Long, Ends> pipes = new LinkedHashMap<>();

  PipeCheck(FindingCollector findings, DumpOptions options, List<Integer> tree) {
    this.findings = findings;
    this.options = options;
    this.tree = tree;
  }

  /** The ends of a pipe that the tree has open. */
  private static final class Ends {
    private final List<ResourceRef> places = new ArrayList<>();
    private boolean reads;
    private boolean writes;

    void add(ResourceRef place) {
      int access = access(place);
      reads |= access != WRITE;
      writes |= access != READ;
      places.add(place);
    }

    boolean both() {
      return reads && writes;
    }
  }

  /** The inode behind a descriptor such as {@code pipe:[12]}. */
  static Optional<Long> inode(String target) {
    Matcher pipe = PIPE.matcher(target);
    return pipe.matches() ? Optional.of(Long.valueOf(pipe.group(1))) : Optional.empty();
  }

  /**
   * Returns the access mode of a descriptor; a closed descriptor counts as both ends, so that it is
   * not reported.
   */
  private static int access(ResourceRef place) {
    return OpenFile.flags(place.pid(), Integer.parseInt(place.handle())).orElse(ACCESS) & ACCESS;
  }

  void look(ResourceRef place, long inode) {
    pipes.computeIfAbsent(inode, none -> new Ends()).add(place);
  }

  void finish() {
    Map<Long, Ends> suspects = new LinkedHashMap<>(pipes);
    suspects.values().removeIf(Ends::both);
    suspects
        .keySet()
        .removeIf(inode -> options.criu().get(CriuSwitch.EXTERNAL).contains(External.pipe(inode)));
    // A pipe without another end does not lose it by a restore.
    suspects.values().removeIf(ends -> !hasOtherEnd(ends.places.get(0)).orElse(true));
    if (suspects.isEmpty()) {
      return;
    }
    // The tree is running: this also finds what it has opened during the scan.
    for (int pid : tree) {
      ProcFs.visibleFiles(pid)
          .forEach(
              file ->
                  inode(file.target())
                      .map(suspects::get)
                      .ifPresent(ends -> ends.add(ResourceRef.descriptor(pid, file.number()))));
    }
    suspects.values().removeIf(Ends::both);
    suspects.forEach(this::report);
  }

  /**
   * Returns whether any process has the other end open. Polls a copy of the descriptor, which reads
   * nothing from the pipe.
   *
   * @return empty if this JVM may not copy it, or if the kernel is older than Linux 5.6
   */
  private static Optional<Boolean> hasOtherEnd(ResourceRef place) {
    try {
      int copy = ProcessDescriptor.take(place.pid(), place.pid(), Integer.parseInt(place.handle()));
      try {
        Poll poll = new Poll(1);
        return Optional.of(!poll.await(0, copy) || !poll.isHungUp(0));
      } finally {
        Libc.close(copy);
      }
    } catch (IOException goneOrForbidden) {
      return Optional.empty();
    }
  }

  private void report(long inode, Ends ends) {
    String holder = Outsiders.holder("pipe:[" + inode + "]", tree);
    String end =
        "the %s end of a pipe whose other end is held by %s outside of this tree; after a restore %s"
            .formatted(
                ends.writes ? "writing" : "reading",
                holder.isEmpty() ? "a process" : holder,
                ends.writes
                    ? "the pipe has no reader, and the next write kills the process"
                    : "the pipe has no writer, and the next read returns end of file");
    String setting = "external=" + External.pipe(inode).text();
    String cure =
        "start the process with a file in its place, or use %s and give the restore another with %s"
            .formatted(
                OptionText.criu(setting),
                OptionText.criu("inherit-file=pipe:[%s]=/dev/null".formatted(inode)));
    for (ResourceRef place : ends.places.stream().distinct().toList()) {
      int number = Integer.parseInt(place.handle());
      String use = number < STANDARD.size() ? "is its " + STANDARD.get(number) + ", " : "is ";
      findings.needs(Kind.PIPE, place, "pipe:[" + inode + "]", use + end, setting, cure);
    }
  }
}
