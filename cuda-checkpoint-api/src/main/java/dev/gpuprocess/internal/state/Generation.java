package dev.gpuprocess.internal.state;

import dev.gpuprocess.internal.linux.ProcessKey;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Identifies one move of a process among all moves by all controllers. The generation is recorded
 * in the file of the process's lock, and each state object remembers the move that led to it.
 *
 * @param boot the kernel's boot id
 * @param startTicks when the moved process started, in clock ticks since boot
 * @param name unique among all moves
 */
public record Generation(String boot, long startTicks, String name) {

  /** Creates the generation of a move that is about to be made. */
  static Generation next(ProcessKey process) {
    String unique =
        ProcessKey.self().text()
            + "-"
            + Long.toHexString(System.nanoTime())
            + "-"
            + Long.toHexString(ThreadLocalRandom.current().nextLong());
    return new Generation(ProcessKey.boot(), process.startTicks(), unique);
  }

  String text() {
    return "%s %s %s".formatted(boot, Long.toString(startTicks), name);
  }

  /** Parses the note of a lock; empty when it concerns another process that had the pid. */
  static Optional<Generation> parse(String note, ProcessKey process) {
    return parse(note)
        .filter(Generation::isOfThisBoot)
        .filter(found -> found.startTicks == process.startTicks());
  }

  boolean isOfThisBoot() {
    return boot.equals(ProcessKey.boot());
  }

  /** Parses a note; empty when it is malformed. */
  static Optional<Generation> parse(String note) {
    String[] words = note.split(" ", 3);
    return words.length == 3 && words[1].matches("\\d{1,18}")
        ? Optional.of(new Generation(words[0], Long.parseLong(words[1]), words[2]))
        : Optional.empty();
  }
}
