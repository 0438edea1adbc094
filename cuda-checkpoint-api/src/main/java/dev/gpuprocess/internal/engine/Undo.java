package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** Brings processes back to where they were before a verb that failed half way. */
public final class Undo {

  private final List<Member> members;

  /** Prepares; nothing is undone yet. */
  public Undo(List<Member> members) {
    this.members = List.copyOf(members);
  }

  /**
   * Undoes in reverse order what was done, as the states tell, and journals the result: all that
   * are checkpointed are restored before any is unlocked, and if one of them cannot be, the others
   * stay locked, as it could come back later. A restore waits for GPU memory as long as closing
   * would. An abandoned call undoes everything itself when it returns, and nobody waits for that.
   *
   * @param from where the verb began
   * @param why gets what goes wrong here
   */
  public void backTo(ProcessState from, Throwable why) {
    if (from != ProcessState.CHECKPOINTED) {
      List<Member> checkpointed = in(ProcessState.CHECKPOINTED);
      if (!checkpointed.isEmpty()) {
        addTo(
            why,
            () ->
                Resumption.patient(checkpointed.get(0).target().context, checkpointed)
                    .restoreCheckpointed());
      }
    }
    if (from == ProcessState.RUNNING && in(ProcessState.CHECKPOINTED).isEmpty()) {
      each(
          in(ProcessState.LOCKED),
          why,
          member -> member.steps().run("unlock", 0, member.operation().calls()::unlock));
    }
    for (Member each : members) {
      each.target().leaveAt(each.operation().stateNow());
      addTo(why, each.steps()::rethrow);
    }
  }

  private List<Member> in(ProcessState state) {
    List<Member> found = new ArrayList<>();
    for (Member each : members) {
      if (each.operation().stateNow() == state) {
        found.add(each);
      }
    }
    return found;
  }

  private static void each(List<Member> members, Throwable why, Consumer<Member> step) {
    if (!members.isEmpty()) {
      addTo(why, () -> Member.all(members, step));
    }
  }

  private static void addTo(Throwable why, Runnable step) {
    try {
      step.run();
    } catch (RuntimeException | Error e) {
      if (e != why) {
        why.addSuppressed(e);
      }
    }
  }
}
