package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.options.CgroupMode;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.RestoreOptions;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;

/** The CRIU options in the description of a test program, as options of the library. */
final class DescriptionOptions {

  /** Ends a restore that loops, so that the other programs are tried. */
  private static final Duration DEADLINE = Duration.ofSeconds(30);

  /** The default of CRIU's command; that of the library is larger. */
  private static final long GHOST_LIMIT = 1 << 20;

  /** Has its value behind a {@code =}, or no value. */
  private static final String CGROUPS = "--manage-cgroups";

  /** Lets CRIU find external mounts; the letters behind the colon include shared and slave ones. */
  private static final String AUTOMATIC_MOUNTS = "mnt[]";

  private final Deque<String> words;
  private final CriuOptions.Builder criu = CriuOptions.builder().ghostLimit(GHOST_LIMIT);

  private DescriptionOptions(List<String> options) {
    this.words =
        new ArrayDeque<>(
            options.stream()
                .flatMap(
                    word ->
                        word.startsWith("--") && !word.startsWith(CGROUPS)
                            ? Stream.of(word.split("=", 2))
                            : Stream.of(word))
                .toList());
  }

  /**
   * Returns the options of a dump.
   *
   * @throws NotHereException if the library lacks one of them
   */
  static DumpOptions dump(List<String> words) throws NotHereException {
    return DumpOptions.builder()
        .deadline(DEADLINE)
        .criu(new DescriptionOptions(words).options())
        .build();
  }

  /**
   * Returns the options of a restore.
   *
   * @throws NotHereException if the library lacks one of them
   */
  static RestoreOptions restore(List<String> words) throws NotHereException {
    return RestoreOptions.builder()
        .deadline(DEADLINE)
        .criu(new DescriptionOptions(words).options())
        .build();
  }

  private CriuOptions options() throws NotHereException {
    while (!words.isEmpty()) {
      String word = words.remove();
      switch (word) {
        case "--no-ghost-fiemap", "--no-mntns-compat-mode" ->
            criu.set(word.replaceFirst("^--no-", "") + "=false");
        case "--external" -> external(words.remove());
        case "--ext-mount-map" -> {
          if (!words.remove().equals("auto")) {
            throw missing(word);
          }
          criu.set("external-mounts");
        }
        case CGROUPS -> criu.cgroups(CgroupMode.SOFT);
        default -> set(word);
      }
    }
    return criu.build();
  }

  private void set(String word) throws NotHereException {
    String name = word.replaceFirst("^--", "").replaceFirst("=.*", "");
    CriuSwitch<?> option =
        CriuSwitch.all().stream()
            .filter(each -> each.name().equals(name))
            .findFirst()
            .orElseThrow(() -> missing(word));
    boolean takesWord = !option.form().isEmpty() && !word.contains("=");
    criu.set(word.substring(2) + (takesWord ? "=" + words.remove() : ""));
  }

  private static NotHereException missing(String option) {
    return new NotHereException("needs " + option + ", which the library does not have");
  }

  private void external(String text) {
    if (text.startsWith(AUTOMATIC_MOUNTS)) {
      criu.set("external-mounts");
      String which = text.substring(AUTOMATIC_MOUNTS.length());
      if (which.contains("s")) {
        criu.set("enable-external-sharing");
      }
      if (which.contains("m")) {
        criu.set("enable-external-masters");
      }
    } else {
      criu.external(new External(text));
    }
  }
}
