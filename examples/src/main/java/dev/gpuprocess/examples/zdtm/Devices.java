package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;

/**
 * The network devices of this network namespace. Some programs and hooks leave theirs behind, where
 * {@code zdtm.py} has a namespace for each.
 */
final class Devices {

  private Devices() {}

  /** Their names. */
  static List<String> names() throws FailedException {
    return Command.in(Path.of("/"), "ip", "-oneline", "link", "show")
        .run()
        .printed()
        .lines()
        .map(line -> line.split(": ", 3)[1].replaceFirst("@.*", ""))
        .collect(Collectors.toList());
  }

  /** Takes away all but some. */
  static void removeAllBut(List<String> names) throws FailedException {
    List<String> more = names();
    more.removeAll(names);
    for (String name : more) {
      // The other end of a pair goes with the first.
      Command.in(Path.of("/"), "ip", "link", "delete", name).run();
    }
  }
}
