package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Optional;

/** Finds a process tree, also one whose root has ended while its members are not running. */
public final class TreeSearch {

  private TreeSearch() {}

  /**
   * Finds it, and reads the state of each member. Only reads, and delays no verb.
   *
   * @param pid of the root
   * @param verb for exceptions
   * @throws NoSuchProcessException when there is no such process, and the journal has no member of
   *     its tree
   */
  public static TrackedTree find(EngineContext context, long pid, String verb) {
    ProcessIdentity root =
        ProcessIdentity.of(pid)
            .filter(ProcessIdentity::isAlive)
            .or(() -> journalled(context, pid))
            .orElseThrow(() -> new NoSuchProcessException(absent(pid), Failure.of(verb, pid)));
    return TrackedTree.of(context, root, new MemberScan(context, root, verb).all());
  }

  private static String absent(long pid) {
    return pid <= 0
        ? pid + " is not a process id: process ids start at 1"
        : "there is no process " + pid + ": it ended, or never was";
  }

  /**
   * Finds a tree that has a member.
   *
   * @throws NotCudaProcessException when neither the process nor a descendant uses CUDA
   */
  public static TrackedTree findWithMembers(EngineContext context, long pid, String verb) {
    TrackedTree tree = find(context, pid, verb);
    if (tree.members().isEmpty()) {
      throw new NotCudaProcessException(
          "process %s has no CUDA state, nor has a descendant: it is no CUDA program, or has not called cuInit yet"
              .formatted(pid),
          Failure.of(verb, pid));
    }
    return tree;
  }

  /** Its members may be suspended although it has ended. */
  private static Optional<ProcessIdentity> journalled(EngineContext context, long pid) {
    for (JournalEntry entry : new Journal(context.state()).entriesOfProcesses()) {
      ProcessKey root = entry.root();
      if (root.pid() == pid
          && root.namespace() == ProcessKey.self().namespace()
          && !entry.find().isGone()) {
        return Optional.of(new ProcessIdentity(root.pid(), root.startTicks()));
      }
    }
    return Optional.empty();
  }
}
