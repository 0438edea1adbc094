package dev.gpuprocess.internal.lock;

import dev.gpuprocess.internal.process.ProcessKey;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Names one move of a process among all that were ever made, by whatever controller. It is in the
 * file of the process's lock, and a state object remembers the one that led to it.
 *
 * @param boot since when the machine runs
 * @param startTicks when the process started that was moved
 * @param name as no other move is called
 */
record Generation(String boot, long startTicks, String name) {

  /** Of a move that is about to be made. */
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

  /** Reads the note of a lock; empty when it is of another process that had the pid. */
  static Optional<Generation> parse(String note, ProcessKey process) {
    return parse(note)
        .filter(Generation::isOfThisBoot)
        .filter(found -> found.startTicks == process.startTicks());
  }

  boolean isOfThisBoot() {
    return boot.equals(ProcessKey.boot());
  }

  /** Reads a note; empty when it is none of ours. */
  static Optional<Generation> parse(String note) {
    String[] words = note.split(" ", 3);
    return words.length == 3 && words[1].matches("\\d{1,18}")
        ? Optional.of(new Generation(words[0], Long.parseLong(words[1]), words[2]))
        : Optional.empty();
  }
}
