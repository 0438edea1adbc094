package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.StaleStateException;
import org.jspecify.annotations.Nullable;

/** Adds to the exception of a verb where the verb left the process, in its message and its data. */
final class VerbOutcome {

  private VerbOutcome() {}

  /** Looks at the members after what was done is undone. */
  static void tell(TreeOperation operation, GpuCheckpointException why) {
    Failure known = why.failure();
    ProcessState now = operation.stateNow();
    ProcessState after = now == null ? known.after() : now;
    ProcessState before = known.before() == null ? operation.before() : known.before();
    why.leftAt(
        new Failure(
            known.operation(),
            known.pid(),
            before,
            after,
            known.elapsed().isZero() ? operation.elapsed() : known.elapsed(),
            known.cudaResult(),
            known.fate()),
        isSaid(why) ? "" : words(operation, before, now));
  }

  /** Whether the message says it already. */
  private static boolean isSaid(GpuCheckpointException why) {
    return why.tree().isPresent()
        || why instanceof GpuMemoryLostException
        || why instanceof NoSuchProcessException
        || (why instanceof StaleStateException && why.failure().after() != null);
  }

  private static String words(
      TreeOperation operation, @Nullable ProcessState before, @Nullable ProcessState now) {
    TrackedTree tree = operation.tree();
    String name = "pid " + tree.root.pid();
    if (operation.isAbandoned()) {
      return name
          + " is brought back to running when the driver's call returns; until then other verbs are"
          + " refused";
    }
    if (now == null) {
      return "";
    }
    String is = name + (now == before ? " is still " : " is ");
    String where = "; " + tree.inspection() + " finds it";
    return switch (now) {
      case RUNNING -> name + (operation.hasMoved() ? " is running again" : " is still running");
      case LOCKED -> is + "locked" + where;
      case CHECKPOINTED -> is + "suspended" + where;
      default -> is + now + where;
    };
  }
}
