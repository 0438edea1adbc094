package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.options.CgroupMode;
import dev.gpuprocess.options.Cgroups;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.TreeOptions;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Locale;
import java.util.stream.Stream;

/** The options that a test program asks of CRIU, as options of the library. */
final class Wishes {

  /** A restore that spins must not hold up all the others. */
  private static final Duration DEADLINE = Duration.ofSeconds(30);

  /** The value comes behind a {@code =} or not at all. */
  private static final String CGROUPS = "--manage-cgroups";

  private Wishes() {}

  /**
   * Those of the dump.
   *
   * @throws NotHereException when it asks for one that is not translated here
   */
  static DumpOptions dump(Program program) throws NotHereException {
    DumpOptions.Builder options = DumpOptions.builder().deadline(DEADLINE);
    Deque<String> words = words(program, "opts", "dopts");
    while (!words.isEmpty()) {
      String word = words.remove();
      switch (word) {
        case "--link-remap" -> options.linkRemap(true);
        case "--skip-in-flight" -> options.tcpSkipInFlight(true);
        case "--force-irmap" -> options.forceIrmap(true);
        case "--ghost-limit" -> options.ghostLimit(bytes(words.remove()));
        case "--network-lock" ->
            options.networkLock(NetworkLock.valueOf(words.remove().toUpperCase(Locale.ROOT)));
        default -> common(options, word);
      }
    }
    return options.build();
  }

  /**
   * Those of the restore.
   *
   * @throws NotHereException when it asks for one that is not translated here
   */
  static RestoreOptions restore(Program program) throws NotHereException {
    RestoreOptions.Builder options = RestoreOptions.builder().deadline(DEADLINE);
    Deque<String> words = words(program, "opts", "ropts");
    while (!words.isEmpty()) {
      String word = words.remove();
      switch (word) {
        case "--link-remap", "--skip-in-flight", "--force-irmap" -> {}
        case "--ghost-limit", "--network-lock" -> words.remove();
        default -> common(options, word);
      }
    }
    return options.build();
  }

  private static Deque<String> words(Program program, String... entries) {
    return new ArrayDeque<>(
        program.words(entries).stream()
            .flatMap(
                word -> word.startsWith(CGROUPS) ? Stream.of(word) : Stream.of(word.split("=", 2)))
            .toList());
  }

  private static void common(TreeOptions.Builder<?> options, String word) throws NotHereException {
    switch (word) {
      case "--tcp-established" -> options.tcpEstablished(true);
      case "--tcp-close" -> options.tcpClose(true);
      case "--ext-unix-sk" -> options.externalUnixSockets(true);
      case "--file-locks" -> options.fileLocks(true);
      case CGROUPS -> options.cgroups(Cgroups.of(CgroupMode.SOFT));
      case "--manage-cgroups=full" -> options.cgroups(Cgroups.of(CgroupMode.FULL));
      case "--manage-cgroups=ignore" -> options.cgroups(Cgroups.of(CgroupMode.IGNORE));
      default -> throw new NotHereException("asks for " + word);
    }
  }

  private static long bytes(String size) {
    int unit = "KMG".indexOf(size.charAt(size.length() - 1));
    return unit < 0
        ? Long.parseLong(size)
        : Long.parseLong(size.substring(0, size.length() - 1)) << (10 * (unit + 1));
  }
}
