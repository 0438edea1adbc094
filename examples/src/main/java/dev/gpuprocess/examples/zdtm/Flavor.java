package dev.gpuprocess.examples.zdtm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The namespaces that a test program runs in, with the name that {@code .desc} files use. */
enum Flavor {
  /** Those of CRIU. */
  HOST("h"),
  /** All of its own but the user namespace, with a root directory of its own. */
  NAMESPACES("ns"),
  /** All of its own, the user namespace too. */
  USER_NAMESPACE("uns");

  private final String word;

  Flavor(String word) {
    this.word = word;
  }

  /** What it is called in {@code .desc} files. */
  String word() {
    return word;
  }

  /** Those that a program is for; all of them if its description names none. */
  static List<Flavor> of(Program program) {
    List<String> words = program.words("flavor");
    List<Flavor> flavors = new ArrayList<>(Arrays.asList(values()));
    flavors.removeIf(flavor -> !words.isEmpty() && !words.contains(flavor.word));
    return List.copyOf(flavors);
  }
}
