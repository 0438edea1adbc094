package dev.gpuprocess.criu;

import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import java.io.IOException;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;

/** Asks CRIU's command line what this kernel has, one feature at a time. */
final class CliFeatures {

  private static final Duration LIMIT = Duration.ofSeconds(30);

  private final CliLink link;

  CliFeatures(CliLink link) {
    this.link = link;
  }

  Set<CriuFeature> run() {
    Set<CriuFeature> found = EnumSet.noneOf(CriuFeature.class);
    for (CriuFeature feature : CriuFeature.values()) {
      if (has(name(feature))) {
        found.add(feature);
      }
    }
    return Set.copyOf(found);
  }

  private boolean has(String name) {
    try {
      Outcome outcome = link.feature(name, Supervision.plain(Deadline.after(LIMIT)));
      return outcome.success() && outcome.output().contains(name + " is supported");
    } catch (IOException e) {
      throw new CriuUnavailableException(
          "CRIU cannot be started: " + e.getMessage(), Failure.of("features", 0), e);
    }
  }

  private static String name(CriuFeature feature) {
    return switch (feature) {
      case MEMORY_TRACKING -> "mem_dirty_track";
      case LAZY_PAGES -> "uffd-noncoop";
      case PIDFD_STORE -> "pidfd_store";
    };
  }
}
