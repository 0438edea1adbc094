package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.options.Mounts;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** What a test program asks of CRIU about mounts. */
final class MountOptions {

  /** External mounts are to be found; behind the colon: shared ones too, slaves too. */
  private static final String AUTOMATIC = "mnt[]";

  private boolean automatic;
  private boolean shared;
  private boolean masters;
  private final List<String> fileSystems = new ArrayList<>();

  /** Takes an option, with its value, if it is one of them. */
  boolean take(String word, Deque<String> following) {
    switch (word) {
      case "--enable-external-masters" -> masters = true;
      case "--enable-external-sharing" -> shared = true;
      case "--enable-fs" -> fileSystems.add(following.remove());
      case "--ext-mount-map" -> {
        return following.remove().equals("auto") && (automatic = true);
      }
      default -> {
        return false;
      }
    }
    return true;
  }

  /** Takes the value of an {@code --external} if it is about all mounts. */
  boolean takeAutomatic(String text) {
    if (!text.startsWith(AUTOMATIC)) {
      return false;
    }
    automatic = true;
    String which = text.substring(AUTOMATIC.length());
    shared |= which.contains("s");
    masters |= which.contains("m");
    return true;
  }

  /** All of it. */
  Mounts mounts() {
    return new Mounts(automatic, shared, masters, List.of(), fileSystems);
  }
}
