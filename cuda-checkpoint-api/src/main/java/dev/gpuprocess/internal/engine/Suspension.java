package dev.gpuprocess.internal.engine;

import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.room.Holdings;
import java.time.Duration;
import java.util.List;

/**
 * The way off the GPU: lock all members, then checkpoint all. What fails half way is undone by the
 * caller.
 */
public final class Suspension {

  private final List<Member> members;

  /** Nothing is done yet. */
  public Suspension(List<Member> members) {
    this.members = members;
  }

  /** Locks running processes. */
  public void lock(Duration timeout) {
    Member.all(members, each -> each.steps().run("lock", 0, () -> each.operation().lock(timeout)));
  }

  /** Checkpoints locked processes. */
  public void checkpoint() {
    Member.all(members, Suspension::checkpoint);
  }

  /** What it holds is written down before: nobody could tell afterwards. */
  private static void checkpoint(Member member) {
    TrackedProcess target = member.target();
    Holdings held = Holdings.of(target.pid(), target.context.inventory().read());
    target.nowHolds(held);
    target.note("checkpoint", ProcessLock.Kind.MOVE);
    member.steps().run("checkpoint", held.bytes(), member.operation()::checkpoint);
  }

  /** Both, of running processes. */
  public void suspend(Duration lockTimeout) {
    lock(lockTimeout);
    // What a listener threw is better told now than with all the memory on the host.
    members.forEach(each -> each.steps().rethrow());
    checkpoint();
  }
}
