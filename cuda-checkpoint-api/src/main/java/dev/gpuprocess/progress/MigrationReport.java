package dev.gpuprocess.progress;

import dev.gpuprocess.options.MigrationMode;
import dev.gpuprocess.options.PageEndpoint;
import java.util.List;

/**
 * What a process or job that has left for another host leaves behind. Immutable.
 *
 * @param receiver where it went
 * @param mode how its memory came there
 * @param steps what was done, oldest first
 */
public record MigrationReport(PageEndpoint receiver, MigrationMode mode, List<Step> steps) {

  /** Copies the list. */
  public MigrationReport {
    steps = List.copyOf(steps);
  }
}
