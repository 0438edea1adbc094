package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.room.NoRoom;
import dev.gpuprocess.internal.room.Reservation;
import dev.gpuprocess.options.ResumeOptions;
import java.util.List;

/** The way back to the GPU: restore all members into reserved room, then unlock all. */
public final class Resumption {

  private final List<Member> members;
  private final ResumeOptions options;

  /** Nothing is done yet. */
  public Resumption(List<Member> members, ResumeOptions options) {
    this.members = members;
    this.options = options;
  }

  /** Restores checkpointed processes, which are locked then. */
  public void restore() {
    Member.all(members, this::restore);
  }

  private void restore(Member member) {
    TrackedProcess target = member.target();
    DriverOperation operation = member.operation();
    Holdings held = options.needs().map(Holdings::told).orElse(target.held());
    Reservation room = target.gpuMemory(options).reserve(why -> refusal(operation, why));
    try {
      member.steps().run("restore", held.bytes(), () -> operation.restore(options.pairs(), room));
    } finally {
      if (!operation.isAbandoned()) {
        room.close();
      }
    }
  }

  private InsufficientGpuMemoryException refusal(DriverOperation operation, NoRoom why) {
    return why.exception(
        operation.failure(null, ProcessState.CHECKPOINTED), RoomWait.advice(options));
  }

  /**
   * Restores and unlocks, as far as each is needed.
   *
   * @param found the state that the processes are in
   */
  public void resume(ProcessState found) {
    if (found == ProcessState.CHECKPOINTED) {
      restore();
    }
    if (found != ProcessState.RUNNING) {
      Member.all(members, each -> unlock(each, found));
    }
  }

  private static void unlock(Member member, ProcessState found) {
    try {
      unlock(member);
    } catch (RuntimeException e) {
      // It was restored for nothing if it stays locked.
      if (found == ProcessState.LOCKED || member.operation().isAbandoned()) {
        throw e;
      }
      unlockAgain(member, e);
    }
  }

  private static void unlockAgain(Member member, RuntimeException first) {
    try {
      unlock(member);
    } catch (RuntimeException e) {
      first.addSuppressed(e);
      throw first;
    }
  }

  private static void unlock(Member member) {
    member.steps().run("unlock", 0, member.operation()::unlock);
  }
}
