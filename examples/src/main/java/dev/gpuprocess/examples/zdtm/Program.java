package dev.gpuprocess.examples.zdtm;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A compiled test program.
 *
 * @param name its file name
 * @param command the command with which CRIU's makefile starts it, in the directory of the program
 * @param description the content of its {@code .desc} file, such as {@code flags}; empty without
 *     such a file
 */
record Program(String name, List<String> command, Map<String, String> description) {

  private static final String USUAL_TIMEOUT = "30";

  /** Returns the words of some entries of the description, in order. */
  List<String> words(String... entries) {
    List<String> words = new ArrayList<>();
    for (String entry : entries) {
      words.addAll(List.of(description.getOrDefault(entry, "").split("\\s+")));
    }
    words.removeIf(String::isEmpty);
    return words;
  }

  /** Returns whether the program has a flag, such as {@code suid}. */
  boolean has(String flag) {
    return words("flags").contains(flag);
  }

  /** Returns the time limit for its preparation and for its exit. */
  Duration timeout() {
    return Duration.ofSeconds(Long.parseLong(description.getOrDefault("timeout", USUAL_TIMEOUT)));
  }
}
