package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.memory.DividedCopy;
import dev.gpuprocess.internal.memory.DriverHook;
import dev.gpuprocess.internal.memory.HeldFiles;
import dev.gpuprocess.internal.memory.LockGate;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.pool.PreparedMemory;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.reservation.GpuMemoryCheck;
import dev.gpuprocess.internal.reservation.Reservation;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.options.ResumeOptions;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Brings processes back towards running, each as its state requires: all checkpointed members are
 * restored into memory that was reserved for all of them, then all locked members are unlocked.
 * Resume, the rollback of a failed verb, a call that returns after its deadline, and recovery use
 * it. A member that is closer to running is left out, so that a resume can be repeated.
 */
public final class Resumption {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final List<ProcessOperation> members;
  private final ResumeOptions options;
  private final boolean waits;
  private final RestoreLimit limit;
  private boolean includesPoisoned;

  private Resumption(
      List<ProcessOperation> members, ResumeOptions options, boolean waits, RestoreLimit limit) {
    this.members = List.copyOf(members);
    this.options = options;
    this.waits = waits;
    this.limit = limit;
  }

  /** Creates one that is refused when GPU memory is missing; its caller waits, without the lock. */
  public Resumption(List<ProcessOperation> members, ResumeOptions options, RestoreLimit limit) {
    this(members, options, false, limit);
  }

  /** Creates one that waits for GPU memory as long as closing does, with the lock held. */
  public static Resumption patient(EngineContext context, List<ProcessOperation> members) {
    return new Resumption(
        members,
        MemoryWait.asWhenClosing(context.timeouts()),
        true,
        RestoreLimit.none(context.timeouts()));
  }

  /** Creates one with default options and no limit of its own. */
  public static Resumption unlimited(EngineContext context, List<ProcessOperation> members) {
    return new Resumption(
        members, ResumeOptions.ofDefaults(), RestoreLimit.none(context.timeouts()));
  }

  /** Includes processes that an earlier restore has poisoned. */
  public Resumption includePoisoned() {
    includesPoisoned = true;
    return this;
  }

  /** Restores the members that were found checkpointed. */
  public void restoreFound() {
    restore(in(ProcessState.CHECKPOINTED, ProcessOperation::found));
  }

  /** Restores and unlocks the members, as the state in which each was found requires. */
  public void resumeFound() {
    resume(ProcessOperation::found);
  }

  /** Restores and unlocks members that are all checkpointed. */
  public void resumeCheckpointed() {
    resume(each -> ProcessState.CHECKPOINTED);
  }

  private void resume(Function<ProcessOperation, ProcessState> state) {
    List<ProcessOperation> unlocked =
        members.stream().filter(each -> state.apply(each) != ProcessState.RUNNING).toList();
    restore(in(ProcessState.CHECKPOINTED, state));
    forEachAlive(unlocked, each -> unlock(each, state.apply(each)));
  }

  /**
   * Brings members back to where a verb that failed began, in reverse order, as their states
   * require, and journals the result. If a member stays checkpointed, or may be, the others stay
   * locked, since it could return later. An abandoned call rolls back when it returns; this method
   * does not wait for that.
   *
   * @param from the state in which the verb began
   * @param why gets the failures of the rollback
   */
  public static void rollBack(List<ProcessOperation> members, ProcessState from, Throwable why) {
    undo(members, from, why);
    members.forEach(each -> addTo(why, each.steps()::rethrow));
  }

  /** Does the same for a verb that tries again. It throws the Errors of listeners when it ends. */
  static void undo(List<ProcessOperation> members, ProcessState from, Throwable why) {
    List<ProcessOperation> checkpointed = now(members, ProcessState.CHECKPOINTED);
    if (from != ProcessState.CHECKPOINTED && !checkpointed.isEmpty()) {
      EngineContext context = checkpointed.get(0).process().context;
      addTo(why, () -> patient(context, checkpointed).restore(checkpointed));
    }
    if (from == ProcessState.RUNNING
        && members.stream().noneMatch(ProcessOperation::mayBeCheckpointed)) {
      addTo(why, () -> Parallel.forEach(now(members, ProcessState.LOCKED), Resumption::unlock));
    }
    members.forEach(ProcessOperation::recordState);
  }

  /** Returns whether locked members may be unlocked: not while one of them is checkpointed. */
  public static boolean mayUnlock(Collection<? extends @Nullable ProcessState> members) {
    return !members.contains(ProcessState.CHECKPOINTED);
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

  private static List<ProcessOperation> now(List<ProcessOperation> members, ProcessState state) {
    return members.stream().filter(each -> each.stateNow() == state).toList();
  }

  private List<ProcessOperation> in(
      ProcessState state, Function<ProcessOperation, ProcessState> found) {
    return members.stream().filter(each -> found.apply(each) == state).toList();
  }

  /** Runs a step on members. If there are several, a member that exits needs nothing more. */
  private void forEachAlive(List<ProcessOperation> some, Consumer<ProcessOperation> step) {
    Parallel.forEach(
        some,
        member -> {
          try {
            step.accept(member);
          } catch (NoSuchProcessException e) {
            if (members.size() == 1) {
              throw e;
            }
            LOG.debug("the other members go on", e);
          }
        });
  }

  /** Restores checkpointed members; they are locked afterwards. */
  private void restore(List<ProcessOperation> checkpointed) {
    if (checkpointed.isEmpty()) {
      return;
    }
    if (waits) {
      MemoryWait.ofLocked(processes(checkpointed), options)
          .retrying(
              () -> {
                restoreOnce(checkpointed);
                return checkpointed;
              });
    } else {
      restoreOnce(checkpointed);
    }
  }

  private static List<TrackedProcess> processes(List<ProcessOperation> members) {
    return members.stream().map(ProcessOperation::process).toList();
  }

  /** A member that has exited while GPU memory was missing needs none. */
  private void restoreOnce(List<ProcessOperation> checkpointed) {
    List<ProcessOperation> alive = new ArrayList<>(checkpointed);
    if (checkpointed.size() > 1) {
      alive.removeIf(each -> each.process().isGone());
    }
    if (alive.isEmpty()) {
      return;
    }
    if (!includesPoisoned) {
      Parallel.forEach(alive, Resumption::requireNotPoisoned);
    }
    GpuMemoryCheck.Reserved reserved =
        MemoryWait.reserve(
            processes(alive),
            options,
            () -> alive.get(0).failure(null, ProcessState.CHECKPOINTED),
            MemoryWait.advice(options));
    Map<ProcessOperation, Reservation> reservations = new HashMap<>();
    for (int i = 0; i < alive.size(); i++) {
      reservations.put(alive.get(i), reserved.reservations().get(i));
    }
    Map<GpuUuid, GpuUuid> pairs = reserved.pairs();
    try {
      forEachAlive(
          alive, each -> restore(each, pairs, reservations.getOrDefault(each, Reservation.NONE)));
    } finally {
      // The reservation of an abandoned call is released when the call returns.
      reservations.forEach(
          (member, reservation) -> {
            if (!member.isAbandoned()) {
              reservation.close();
            }
          });
    }
  }

  /** Throws before the wait for memory: no amount of memory helps a poisoned process. */
  private static void requireNotPoisoned(ProcessOperation member) {
    if (member.process().isPoisoned()) {
      throw CudaFailures.poisoned(
          member.process(), member.failure(null, ProcessState.CHECKPOINTED));
    }
  }

  private void restore(
      ProcessOperation member, Map<GpuUuid, GpuUuid> pairs, Reservation reservation) {
    TrackedProcess process = member.process();
    GpuUsage held = options.needs().map(GpuUsage::stated).orElse(process.held());
    Runnable restore = () -> member.restore(pairs, reservation, limit);
    member
        .steps()
        .runNoted("restore", held.bytes(), () -> restored(process, held.bytes(), restore));
  }

  /** Runs the driver's restore, whose copies are divided among threads if that is faster. */
  private String restored(TrackedProcess process, long bytes, Runnable restore) {
    HeldFiles.find(process.identity, process.saveFiles());
    if (process.context.driverHook() && DividedCopy.isWorthwhile(bytes)) {
      try (HostMemoryPool.Copies copies = process.context.hostMemory().copying(1)) {
        int processes = Math.max(members.size(), copies.underWay());
        return DividedCopy.during(
            process.identity, PreparedMemory.NONE, processes, false, restore, restore);
      }
    }
    restore.run();
    return "";
  }

  private static void unlock(ProcessOperation member, ProcessState found) {
    try {
      unlock(member);
    } catch (RuntimeException e) {
      // The restore would be wasted if the process stayed locked.
      if (found == ProcessState.LOCKED || member.isAbandoned()) {
        throw e;
      }
      unlockAgain(member, e);
    }
  }

  private static void unlockAgain(ProcessOperation member, RuntimeException first) {
    try {
      unlock(member);
    } catch (RuntimeException e) {
      first.addSuppressed(e);
      throw first;
    }
  }

  private static void unlock(ProcessOperation member) {
    member.steps().run("unlock", 0, member::unlock);
  }

  /**
   * Brings one process back to running from any state, as far as that is safe, and journals the
   * result. Calls the driver without a deadline, and waits for GPU memory as long as closing does:
   * for a thread that can be abandoned, when the pid may already belong to another process. While
   * another member of its tree is checkpointed, the process stays locked: it is unlocked when the
   * tree is resumed.
   *
   * @param tree of the process; null for a verb that only reads
   * @return true
   * @throws dev.gpuprocess.error.GpuCheckpointException when GPU memory is missing
   */
  static boolean bringBack(
      TrackedProcess process, @Nullable ProcessLock lock, @Nullable TrackedTree tree) {
    CudaDriver cuda = process.context.cuda();
    ProcessState state = stateIfAlive(process);
    if (lock != null) {
      lock.moveBack().ifPresent(process::observeGeneration);
    }
    try {
      if (state == ProcessState.CHECKPOINTED && !process.isPoisoned()) {
        LOG.info("process {} is restored: {}", process.pid(), restoreWithMemory(process));
        state = stateIfAlive(process);
      }
      if (state == ProcessState.LOCKED && (tree == null || mayUnlock(process, tree))) {
        LOG.info("process {} is unlocked: {}", process.pid(), cuda.unlock(process.pid()));
        removeChanges(process, ProcessState.RUNNING);
      }
    } finally {
      process.setState(stateIfAlive(process));
    }
    return true;
  }

  /** Returns whether no other living member of the tree is known to be checkpointed. */
  private static boolean mayUnlock(TrackedProcess process, TrackedTree tree) {
    return tree.members().stream()
        .filter(each -> !each.equals(process) && each.lastKnown() == ProcessState.CHECKPOINTED)
        .allMatch(each -> Unreadable.as(false, each::isGone));
  }

  /** Restores to the GPUs that the process used before. */
  private static CudaResult restoreWithMemory(TrackedProcess process) {
    ResumeOptions options = MemoryWait.asWhenClosing(process.context.timeouts());
    return MemoryWait.ofLocked(List.of(process), options)
        .retrying(
            () -> {
              try (Reservation reservation =
                  MemoryWait.reserve(
                          List.of(process),
                          options,
                          () -> Failure.of("restore", process.pid()),
                          "the process stays checkpointed, resume it later")
                      .reservations()
                      .get(0)) {
                LOG.debug("process {} is restored into {}", process.pid(), reservation);
                HeldFiles.find(process.identity, process.saveFiles());
                return restore(process, Map.of());
              }
            });
  }

  /**
   * Calls the driver's restore without a deadline, and journals when it runs out of GPU memory: the
   * driver refuses every later restore then.
   */
  static CudaResult restore(TrackedProcess process, Map<GpuUuid, GpuUuid> pairs) {
    CudaResult result = process.context.cuda().restore(process.pid(), pairs);
    if (result.equals(CudaResult.OUT_OF_MEMORY)
        && stateIfAlive(process) == ProcessState.CHECKPOINTED) {
      process.poison();
    }
    return result;
  }

  private static @Nullable ProcessState stateIfAlive(TrackedProcess process) {
    return process.isGone() ? null : process.context.cuda().getState(process.pid()).value();
  }

  /**
   * Removes what controllers have changed in the libcuda of a process, as its state permits, and
   * frees the memory of its save files if it is running.
   */
  public static void removeChanges(TrackedProcess process, ProcessState state) {
    if (state == ProcessState.RUNNING) {
      LockGate.remove(process.identity);
    }
    boolean unused = DriverHook.removeFrom(process.identity);
    if (state == ProcessState.RUNNING) {
      HeldFiles.cut(process.identity, process.saveFiles());
    }
  }
}
