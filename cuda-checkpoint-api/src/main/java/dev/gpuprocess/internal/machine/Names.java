package dev.gpuprocess.internal.machine;

import dev.gpuprocess.image.ImageMachine;

/** Names of hardware, as hypervisors and drivers tell them. */
final class Names {

  private Names() {}

  /** The name as a manifest takes it, whatever is in it. */
  static String recorded(String name) {
    String plain = name.replaceAll("[^ -~]", "?");
    return plain.substring(0, Math.min(plain.length(), ImageMachine.LONGEST_NAME));
  }
}
