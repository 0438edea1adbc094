package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/** A process that was to end with the JVM that launched it, and outlived that JVM and its guard. */
public final class LeftJob {

  private LeftJob() {}

  /**
   * Ends all of it.
   *
   * @param root its root
   * @param entry the journal's file about it
   * @return false when it does not end within the limit
   * @throws IOException when that cannot be tried
   */
  public static boolean end(ProcessIdentity root, Path entry, Duration limit) throws IOException {
    try (PidDescriptor held = PidDescriptor.open(root.pid())) {
      if (Processes.stat(root).isEmpty()) {
        return true; // another process has its pid
      }
      Guard guard = Guard.start(root, held, false, entry, limit);
      boolean ordered = guard.kill();
      return guard.awaitEnd(limit) && ordered;
    }
  }
}
