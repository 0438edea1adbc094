package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.handover.SaveAreas;
import dev.gpuprocess.internal.populate.ReadAhead;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.room.GpuMemoryRefusal;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.room.Reservation;
import dev.gpuprocess.options.ResumeOptions;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The way back to the GPU: restore all members into reserved room, then unlock all. */
public final class Resumption {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final List<Member> members;
  private final ResumeOptions options;
  private final boolean waits;

  private Resumption(List<Member> members, ResumeOptions options, boolean waits) {
    this.members = members;
    this.options = options;
    this.waits = waits;
  }

  /** One that is refused when there is no room; its caller waits, without the lock. */
  public Resumption(List<Member> members, ResumeOptions options) {
    this(members, options, false);
  }

  /** One that waits for room as long as closing would, with the lock held. */
  public static Resumption patient(List<Member> members) {
    EngineContext context = members.get(0).target().context;
    return new Resumption(members, RoomWait.asWhenClosing(context.timeouts()), true);
  }

  /** Restores checkpointed processes; they are locked afterwards. */
  public void restore() {
    Member.all(members, waits ? this::restoreWhenThereIsRoom : this::restore);
  }

  private void restoreWhenThereIsRoom(Member member) {
    new RoomWait(member.target(), options)
        .retrying(
            () -> {
              restore(member);
              return member;
            });
  }

  private void restore(Member member) {
    TrackedProcess target = member.target();
    DriverOperation operation = member.operation();
    Holdings held = options.needs().map(Holdings::told).orElse(target.held());
    Reservation room = target.gpuMemory(options).reserve(why -> refusal(operation, why));
    try {
      Runnable restore = () -> operation.calls().restore(options.pairs(), room);
      member.steps().runNoted("restore", held.bytes(), () -> helped(target, restore));
    } finally {
      if (!operation.calls().isAbandoned()) {
        room.close();
      }
    }
  }

  /** The call has its own deadline; what helps it changes nothing of how it ends. */
  private static String helped(TrackedProcess target, Runnable restore) {
    List<AddressRange> mapped = target.context.populateAhead() ? mapped(target.pid()) : List.of();
    if (mapped.stream().mapToLong(AddressRange::bytes).sum() >= ReadAhead.LEAST_BYTES) {
      return ReadAhead.during(target.identity, mapped, restore);
    }
    restore.run();
    return "";
  }

  private static List<AddressRange> mapped(int pid) {
    try {
      return SaveAreas.handedOver(pid);
    } catch (ProcessUnreadableException e) {
      LOG.debug("what process {} maps is not read ahead", pid, e);
      return List.of();
    }
  }

  private InsufficientGpuMemoryException refusal(DriverOperation operation, GpuMemoryRefusal why) {
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
