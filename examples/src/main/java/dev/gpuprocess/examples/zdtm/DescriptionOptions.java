package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.JoinedNamespace;
import dev.gpuprocess.options.Namespace;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.TreeOptions;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/** The options that a test program asks of CRIU, as options of the library. */
final class DescriptionOptions {

  /** A restore that spins must not hold up all the others. */
  private static final Duration DEADLINE = Duration.ofSeconds(30);

  /** What CRIU's command refuses to go beyond; the library allows more. */
  private static final long GHOST_LIMIT = 1 << 20;

  /** The value comes behind a {@code =} or not at all. */
  private static final String CGROUPS = "--manage-cgroups";

  private final Deque<String> words;
  private final CgroupOptions cgroups = new CgroupOptions();
  private final MountOptions mounts = new MountOptions();

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
   * Those of the dump.
   *
   * @throws NotHereException when it asks for one that the library has not
   */
  static DumpOptions dump(List<String> words) throws NotHereException {
    return new DescriptionOptions(words).dump();
  }

  /**
   * Those of the restore.
   *
   * @throws NotHereException when it asks for one that the library has not
   */
  static RestoreOptions restore(List<String> words) throws NotHereException {
    return new DescriptionOptions(words).restore();
  }

  private DumpOptions dump() throws NotHereException {
    DumpOptions.Builder options = DumpOptions.builder().deadline(DEADLINE).ghostLimit(GHOST_LIMIT);
    while (!words.isEmpty()) {
      String word = words.remove();
      switch (word) {
        case "--link-remap" -> options.linkRemap(true);
        case "--skip-in-flight" -> options.tcpSkipInFlight(true);
        case "--force-irmap" -> options.forceIrmap(true);
        case "--irmap-scan-path" -> options.irmapScanPaths(Path.of(words.remove()));
        case "--ghost-limit" -> options.ghostLimit(bytes(words.remove()));
        case "--ghost-fiemap" -> options.ghostFiemap(true);
        case "--no-ghost-fiemap" -> options.ghostFiemap(false);
        case "--network-lock" ->
            options.networkLock(NetworkLock.valueOf(words.remove().toUpperCase(Locale.ROOT)));
        default -> common(options, word);
      }
    }
    cgroups.addTo(options);
    return options.mounts(mounts.mounts()).build();
  }

  private RestoreOptions restore() throws NotHereException {
    RestoreOptions.Builder options = RestoreOptions.builder().deadline(DEADLINE);
    while (!words.isEmpty()) {
      String word = words.remove();
      switch (word) {
        // CRIU takes these for a restore too, and does nothing with them.
        case "--link-remap", "--skip-in-flight", "--force-irmap" -> {}
        case "--ghost-limit", "--irmap-scan-path" -> words.remove();
        case "--root" -> options.root(Path.of(words.remove()));
        case "--mntns-compat-mode" -> options.mountCompatibility(true);
        case "--no-mntns-compat-mode" -> options.mountCompatibility(false);
        case "--lsm-mount-context" -> options.lsmMountContext(words.remove());
        case "--join-ns" -> options.join(namespace(words.remove()));
        default -> common(options, word);
      }
    }
    cgroups.addTo(options);
    return options.mounts(mounts.mounts()).build();
  }

  private void common(TreeOptions.Builder<?> options, String word) throws NotHereException {
    switch (word) {
      case "--tcp-established" -> options.tcpEstablished(true);
      case "--tcp-close" -> options.tcpClose(true);
      case "--ext-unix-sk" -> options.externalUnixSockets(true);
      case "--file-locks" -> options.fileLocks(true);
      case "--allow-uprobes" -> options.allowUprobes(true);
      case "--external" -> external(options, words.remove());
      default -> {
        if (!mounts.take(word, words) && !cgroups.take(word, words)) {
          throw new NotHereException("asks for " + word + ", which the library has not");
        }
      }
    }
  }

  private void external(TreeOptions.Builder<?> options, String text) {
    if (!mounts.takeAutomatic(text)) {
      options.external(new External(text));
    }
  }

  private static JoinedNamespace namespace(String text) {
    String[] parts = text.split(":", 2);
    return JoinedNamespace.of(
        Namespace.valueOf(parts[0].toUpperCase(Locale.ROOT)), Path.of(parts[1]));
  }

  private static long bytes(String size) {
    int unit = "KMG".indexOf(size.charAt(size.length() - 1));
    return unit < 0
        ? Long.parseLong(size)
        : Long.parseLong(size.substring(0, size.length() - 1)) << (10 * (unit + 1));
  }
}
