package dev.gpuprocess.internal.launch;

import dev.gpuprocess.process.ProcessIdentity;
import org.jspecify.annotations.Nullable;

/**
 * Something that may end a process which is to come back from an image: a dump. While it is open
 * the end of the process counts neither as the end of its process nor as something else. For
 * processes that were not launched here it does nothing.
 */
public final class Departure implements AutoCloseable {

  private final @Nullable LaunchedRoot job;
  private final @Nullable JobLife life;
  private boolean done;

  private Departure(@Nullable LaunchedRoot job, @Nullable JobLife life) {
    this.job = job;
    this.life = life;
  }

  /** Begins one. */
  public static Departure of(ProcessIdentity process) {
    return LaunchedRoot.running(process)
        .flatMap(job -> job.departing(process).map(life -> new Departure(job, life)))
        .orElseGet(() -> new Departure(null, null));
  }

  /** The process is in its image now, and ends because of that. */
  public void done() {
    done = true;
  }

  @Override
  public void close() {
    if (job != null && life != null) {
      job.departed(life, done);
    }
  }
}
