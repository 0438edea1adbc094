package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.options.RestoreOptions;
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
  private final CriuOptions.Builder criu = CriuOptions.builder().ghostLimit(GHOST_LIMIT);
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
   * Those of a dump.
   *
   * @throws NotHereException when it asks for one that the library does not have
   */
  static DumpOptions dump(List<String> words) throws NotHereException {
    return DumpOptions.builder()
        .deadline(DEADLINE)
        .criu(new DescriptionOptions(words).options())
        .build();
  }

  /**
   * Those of a restore.
   *
   * @throws NotHereException when it asks for one that the library does not have
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
        case "--tcp-established" -> criu.tcpEstablished(true);
        case "--tcp-close" -> criu.tcpClose(true);
        case "--skip-in-flight" -> criu.tcpSkipInFlight(true);
        case "--network-lock" ->
            criu.networkLock(NetworkLock.valueOf(words.remove().toUpperCase(Locale.ROOT)));
        case "--ext-unix-sk" -> criu.externalUnixSockets(true);
        case "--file-locks" -> criu.fileLocks(true);
        case "--link-remap" -> criu.linkRemap(true);
        case "--ghost-limit" -> criu.ghostLimit(bytes(words.remove()));
        case "--ghost-fiemap" -> criu.ghostFiemap(true);
        case "--no-ghost-fiemap" -> criu.ghostFiemap(false);
        case "--force-irmap" -> criu.forceIrmap(true);
        case "--irmap-scan-path" -> criu.irmapScanPaths(Path.of(words.remove()));
        case "--allow-uprobes" -> criu.allowUprobes(true);
        case "--root" -> criu.root(Path.of(words.remove()));
        case "--mntns-compat-mode" -> criu.mountCompatibility(true);
        case "--no-mntns-compat-mode" -> criu.mountCompatibility(false);
        case "--lsm-mount-context" -> criu.lsmMountContext(words.remove());
        case "--join-ns" -> {
          String[] kindAndFile = words.remove().split(":", 2);
          criu.joinNamespace(kindAndFile[0], Path.of(kindAndFile[1]));
        }
        case "--external" -> external(words.remove());
        default -> {
          if (!mounts.take(word, words) && !cgroups.take(word, words)) {
            throw new NotHereException("asks for " + word + ", which the library does not have");
          }
        }
      }
    }
    cgroups.addTo(criu);
    return criu.mounts(mounts.mounts()).build();
  }

  private void external(String text) {
    if (!mounts.takeAutomatic(text)) {
      criu.external(new External(text));
    }
  }

  private static long bytes(String size) {
    int unit = "KMG".indexOf(size.charAt(size.length() - 1));
    return unit < 0
        ? Long.parseLong(size)
        : Long.parseLong(size.substring(0, size.length() - 1)) << (10 * (unit + 1));
  }
}
