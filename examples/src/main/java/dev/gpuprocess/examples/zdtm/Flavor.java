package dev.gpuprocess.examples.zdtm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The namespaces that a test program runs in, with the name that {@code .desc} files use. */
enum Flavor {
  /** The namespaces of CRIU. */
  HOST("h"),
  /** New namespaces except the user namespace, with a root directory of its own. */
  NAMESPACES("ns"),
  /** New namespaces, with a user namespace. */
  USER_NAMESPACE("uns");

  private final String word;

  Flavor(String word) {
    this.word = word;
  }

  /** Returns its name in {@code .desc} files. */
  String word() {
    return word;
  }

  /** Returns the flavors of a program; all of them if its description names no flavor. */
  static List<Flavor> of(Program program) {
    List<String> words = program.words("flavor");
    List<Flavor> flavors = new ArrayList<>(Arrays.asList(values()));
    flavors.removeIf(flavor -> !words.isEmpty() && !words.contains(flavor.word));
    return List.copyOf(flavors);
  }
}
