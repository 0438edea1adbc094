package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.options.CgroupMode;
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
        case "--enable-external-masters" -> criu.masterMounts(true);
        case "--enable-external-sharing" -> criu.sharedMounts(true);
        case "--enable-fs" -> criu.fileSystems(words.remove());
        case "--ext-mount-map" -> {
          if (!words.remove().equals("auto")) {
            throw missing(word);
          }
          criu.externalMounts(true);
        }
        case CGROUPS -> criu.cgroups(CgroupMode.SOFT);
        case CGROUPS + "=full" -> criu.cgroups(CgroupMode.FULL);
        case CGROUPS + "=ignore" -> criu.cgroups(CgroupMode.IGNORE);
        case "--cgroup-root" -> {
          String value = words.remove();
          int colon = value.indexOf(':');
          String controller = value.substring(0, Math.max(colon, 0));
          criu.cgroupRoot(controller, value.substring(colon + 1));
        }
        case "--cgroup-yard" -> criu.cgroupYard(Path.of(words.remove()));
        default -> throw missing(word);
      }
    }
    return criu.build();
  }

  private static NotHereException missing(String option) {
    return new NotHereException("needs " + option + ", which the library does not have");
  }

  private void external(String text) {
    if (text.startsWith(AUTOMATIC_MOUNTS)) {
      criu.externalMounts(true);
      String which = text.substring(AUTOMATIC_MOUNTS.length());
      if (which.contains("s")) {
        criu.sharedMounts(true);
      }
      if (which.contains("m")) {
        criu.masterMounts(true);
      }
    } else {
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
