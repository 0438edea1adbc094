package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import java.util.List;

/** Brings processes back to where they were before a verb that failed half way. */
public final class Undo {

  private final List<Member> members;

  /** Prepares; nothing is undone yet. */
  public Undo(List<Member> members) {
    this.members = members;
  }

  /**
   * Undoes in reverse order what was done, as the state tells, and journals the result. A restore
   * waits for GPU memory as long as closing would. An abandoned call undoes everything itself when
   * it returns.
   *
   * @param from where the verb began
   * @param why gets what goes wrong here
   */
  public void backTo(ProcessState from, Throwable why) {
    Member.all(members, each -> backTo(each, from, why));
  }

  private static void backTo(Member member, ProcessState from, Throwable why) {
    DriverOperation operation = member.operation();
    try {
      ProcessState now = operation.stateNow();
      if (now == ProcessState.CHECKPOINTED && from != now) {
        Resumption.patient(List.of(member)).restore();
        now = operation.stateNow();
      }
      if (now == ProcessState.LOCKED && from == ProcessState.RUNNING) {
        member.steps().run("unlock", 0, operation.calls()::unlock);
      }
    } catch (RuntimeException | Error e) {
      addTo(why, e);
    }
    member.target().leaveAt(operation.stateNow());
    try {
      member.steps().rethrow();
    } catch (RuntimeException | Error e) {
      addTo(why, e);
    }
  }

  private static void addTo(Throwable why, Throwable more) {
    if (more != why) {
      why.addSuppressed(more);
    }
  }
}
