package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Optional;

/** Finds the job of a root, and of one that has ended while its members are not running. */
public final class JobSearch {

  private JobSearch() {}

  /**
   * Finds it, and reads the state of each member. Only reads, and delays no verb.
   *
   * @param pid of the root
   * @param verb for exceptions
   * @throws NoSuchProcessException when there is no such process, and no member of its is known
   */
  public static TrackedJob find(EngineContext context, long pid, String verb) {
    ProcessIdentity root =
        ProcessIdentity.of(pid)
            .filter(ProcessIdentity::isAlive)
            .or(() -> journalled(context, pid))
            .orElseThrow(
                () ->
                    new NoSuchProcessException(
                        "there is no process %s, and no member of a job of its is suspended"
                            .formatted(pid),
                        Failure.of(verb, pid)));
    return TrackedJob.of(context, root, new MemberScan(context, root, verb).all());
  }

  /** Its members may be suspended although it has ended. */
  private static Optional<ProcessIdentity> journalled(EngineContext context, long pid) {
    for (JournalEntry entry : new Journal(context.state()).entriesOfJobs()) {
      ProcessKey job = entry.job();
      if (job != null
          && job.pid() == pid
          && job.namespace() == ProcessKey.self().namespace()
          && !entry.find().isGone()) {
        return Optional.of(new ProcessIdentity(job.pid(), job.startTicks()));
      }
    }
    return Optional.empty();
  }
}
