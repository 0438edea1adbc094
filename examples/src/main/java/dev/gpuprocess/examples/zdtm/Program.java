package dev.gpuprocess.examples.zdtm;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A compiled test program.
 *
 * @param name its file name
 * @param command how CRIU's makefile starts it, from the directory it lies in
 * @param description what the {@code .desc} file beside it says, such as {@code flags}; empty
 *     without such a file
 */
record Program(String name, List<String> command, Map<String, String> description) {

  private static final String USUAL_TIMEOUT = "30";

  /** The words of some entries of the description, in order. */
  List<String> words(String... entries) {
    List<String> words = new ArrayList<>();
    for (String entry : entries) {
      words.addAll(List.of(description.getOrDefault(entry, "").split("\\s+")));
    }
    words.removeIf(String::isEmpty);
    return words;
  }

  /** Whether it has a flag, such as {@code suid}. */
  boolean has(String flag) {
    return words("flags").contains(flag);
  }

  /** How long it may take to get ready, and to come to an end. */
  Duration timeout() {
    return Duration.ofSeconds(Long.parseLong(description.getOrDefault("timeout", USUAL_TIMEOUT)));
  }
}
