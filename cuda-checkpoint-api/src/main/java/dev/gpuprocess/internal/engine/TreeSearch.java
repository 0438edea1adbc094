package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.AmdDevices;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Finds a process tree, also one whose root has ended while its members are not running. */
public final class TreeSearch {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

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
            .orElseThrow(() -> absent(context, pid, verb));
    return TrackedTree.of(context, root, new MemberScan(context, root, verb).all());
  }

  private static NoSuchProcessException absent(EngineContext context, long pid, String verb) {
    // Of a zombie this says who has not reaped it.
    ReachabilityCheck.require(TrackedProcess.of(context, pid, verb), verb);
    return new NoSuchProcessException(
        "process %s has just ended".formatted(pid), Failure.of(verb, pid));
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
          "process %s has no CUDA state, nor has a descendant: %s".formatted(pid, why(tree)),
          new Failure(verb, pid, null, null, Duration.ZERO, CudaResult.NOT_INITIALIZED, null));
    }
    return tree;
  }

  private static String why(TrackedTree tree) {
    try {
      for (int pid : ProcFs.tree(tree.root.pid())) {
        Optional<String> device = AmdDevices.heldBy(pid, () -> {});
        if (device.isPresent()) {
          return "it has %s open, so take it with AmdProcess.of".formatted(device.get());
        }
      }
    } catch (ProcessUnreadableException e) {
      LOG.debug("whether process {} uses an AMD GPU is not known", tree.root.pid(), e);
    }
    return "it is no CUDA program, or has not called cuInit yet";
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
