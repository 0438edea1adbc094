package dev.gpuprocess.progress;

import dev.gpuprocess.options.PageEndpoint;
import java.util.List;

/**
 * What a process or job that has left for another host leaves behind. Immutable.
 *
 * @param receiver where it went
 * @param steps what was done, oldest first
 */
public record MigrationReport(PageEndpoint receiver, List<Step> steps) {

  /** Copies the list. */
  public MigrationReport {
    steps = List.copyOf(steps);
  }
}
