package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.GpuPair;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.memory.DividedCopy;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.pool.PreparedMemory;
import dev.gpuprocess.internal.reservation.GpuMemoryCheck;
import dev.gpuprocess.internal.reservation.GpuMemoryRefusal;
import dev.gpuprocess.internal.reservation.GpuUsage;
import dev.gpuprocess.internal.reservation.Reservation;
import dev.gpuprocess.options.ResumeOptions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The way back to the GPU: restore all members into room that was reserved for all of them, then
 * unlock all. Members that are further already are left out, so that it can be done again.
 */
public final class Resumption {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final List<Member> members;
  private final ResumeOptions options;
  private final boolean waits;
  private boolean poisonedToo;

  private Resumption(List<Member> members, ResumeOptions options, boolean waits) {
    this.members = List.copyOf(members);
    this.options = options;
    this.waits = waits;
  }

  /** One that is refused when there is no room; its caller waits, without the lock. */
  public Resumption(List<Member> members, ResumeOptions options) {
    this(members, options, false);
  }

  /** One that waits for room as long as closing would, with the lock held. */
  public static Resumption patient(EngineContext context, List<Member> members) {
    return new Resumption(members, RoomWait.asWhenClosing(context.timeouts()), true);
  }

  /** Has the driver asked about a process that an earlier restore has poisoned, too. */
  public Resumption evenIfPoisoned() {
    poisonedToo = true;
    return this;
  }

  /** Restores those that were found checkpointed; all are locked afterwards, or further. */
  public void restoreFound() {
    restore(in(ProcessState.CHECKPOINTED, each -> each.operation().found()));
  }

  /** Restores and unlocks, as far as each was found to need it. */
  public void resumeFound() {
    resume(each -> each.operation().found());
  }

  /** Restores and unlocks processes that are all checkpointed. */
  public void resumeCheckpointed() {
    resume(each -> ProcessState.CHECKPOINTED);
  }

  private void resume(Function<Member, ProcessState> found) {
    List<Member> unlocked =
        members.stream().filter(each -> found.apply(each) != ProcessState.RUNNING).toList();
    restore(in(ProcessState.CHECKPOINTED, found));
    each(unlocked, member -> unlock(member, found.apply(member)));
  }

  /** Does something with all. One of several that ends meanwhile needs nothing more. */
  private void each(List<Member> all, Consumer<Member> deed) {
    Member.all(
        all,
        member -> {
          try {
            deed.accept(member);
          } catch (NoSuchProcessException e) {
            if (members.size() == 1) {
              throw e;
            }
            LOG.debug("the others of its process go on", e);
          }
        });
  }

  private List<Member> in(ProcessState state, Function<Member, ProcessState> found) {
    return members.stream().filter(each -> found.apply(each) == state).toList();
  }

  /** Restores checkpointed processes; they are locked afterwards. */
  void restoreCheckpointed() {
    restore(members);
  }

  private void restore(List<Member> checkpointed) {
    if (checkpointed.isEmpty()) {
      return;
    }
    if (waits) {
      RoomWait.ofLocked(targets(checkpointed), options)
          .retrying(
              () -> {
                restoreOnce(checkpointed);
                return checkpointed;
              });
    } else {
      restoreOnce(checkpointed);
    }
  }

  private static List<TrackedProcess> targets(List<Member> members) {
    return members.stream().map(Member::target).toList();
  }

  /** What has ended while there was no room needs none. */
  private void restoreOnce(List<Member> checkpointed) {
    List<Member> there = new ArrayList<>(checkpointed);
    if (checkpointed.size() > 1) {
      there.removeIf(each -> each.target().isGone());
    }
    if (there.isEmpty()) {
      return;
    }
    if (!poisonedToo) {
      Member.all(there, Resumption::requireNotPoisoned);
    }
    EngineContext context = there.get(0).target().context;
    DriverOperation first = there.get(0).operation();
    GpuMemoryCheck.Reserved reserved =
        GpuRoom.check(context, targets(there), options)
            .reserve(
                why -> refusal(first, why), why -> GpuRoom.impossible(why, checkpointed(first)));
    Map<Member, Reservation> room = new HashMap<>();
    for (int i = 0; i < there.size(); i++) {
      room.put(there.get(i), reserved.reservations().get(i));
    }
    List<GpuPair> pairs = reserved.pairs();
    try {
      each(there, each -> restore(each, pairs, room.getOrDefault(each, Reservation.NONE)));
    } finally {
      // That of an abandoned call is released when the call returns.
      room.forEach(
          (member, reservation) -> {
            if (!member.operation().calls().isAbandoned()) {
              reservation.close();
            }
          });
    }
  }

  /** Before anything is waited for: no memory helps such a process. */
  private static void requireNotPoisoned(Member member) {
    if (member.target().isPoisoned()) {
      throw CudaFailures.poisoned(
          member.target(), member.operation().failure(null, ProcessState.CHECKPOINTED));
    }
  }

  private void restore(Member member, List<GpuPair> pairs, Reservation room) {
    TrackedProcess target = member.target();
    GpuUsage held = options.needs().map(GpuUsage::stated).orElse(target.held());
    Runnable restore = () -> member.operation().calls().restore(pairs, room);
    member.steps().runNoted("restore", held.bytes(), () -> restored(target, held.bytes(), restore));
  }

  /** The call has its own deadline; how its copies are made changes nothing of how it ends. */
  private String restored(TrackedProcess target, long bytes, Runnable restore) {
    if (target.context.driverHook() && DividedCopy.isWorthwhile(bytes)) {
      try (HostMemoryPool.Copies copies = target.context.hostMemory().copying(1)) {
        int processes = Math.max(members.size(), copies.underWay());
        return DividedCopy.during(target.identity, PreparedMemory.NONE, processes, false, restore)
            .note();
      }
    }
    restore.run();
    return "";
  }

  private InsufficientGpuMemoryException refusal(DriverOperation operation, GpuMemoryRefusal why) {
    return why.exception(checkpointed(operation), RoomWait.advice(options));
  }

  private static Failure checkpointed(DriverOperation operation) {
    return operation.failure(null, ProcessState.CHECKPOINTED);
  }

  private static void unlock(Member member, ProcessState found) {
    try {
      unlock(member);
    } catch (RuntimeException e) {
      // The restore would be wasted if the process stayed locked.
      if (found == ProcessState.LOCKED || member.operation().calls().isAbandoned()) {
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
    member.steps().run("unlock", 0, member.operation().calls()::unlock);
  }
}
