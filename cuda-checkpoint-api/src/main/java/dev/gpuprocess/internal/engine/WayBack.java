package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.room.Reservation;
import dev.gpuprocess.options.ResumeOptions;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Brings a process back to running from any state, as far as that is safe. May run on any thread
 * and much later, when the pid may belong to another process.
 */
final class WayBack {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final TrackedProcess target;
  private final @Nullable ProcessLock lock;
  private final CudaDriver cuda;

  WayBack(TrackedProcess target, @Nullable ProcessLock lock) {
    this.target = target;
    this.lock = lock;
    this.cuda = target.context.cuda();
  }

  /**
   * Restores and unlocks as needed, and journals the result.
   *
   * @return true
   */
  boolean go() {
    ProcessState state = stateIfAlive();
    if (lock != null) {
      lock.moveBack().ifPresent(move -> target.sees(Optional.of(move)));
    }
    if (state == ProcessState.CHECKPOINTED && restoreIfThereIsRoom().ok()) {
      state = stateIfAlive();
    }
    if (state == ProcessState.LOCKED) {
      LOG.info("process {} is unlocked: {}", target.pid(), cuda.unlock(target.pid()));
    }
    target.leaveAt(stateIfAlive());
    return true;
  }

  /**
   * Restores to where the memory was; answers OUT_OF_MEMORY without a call when there is no room.
   */
  CudaResult restoreIfThereIsRoom() {
    Optional<Reservation> reserved = target.gpuMemory(ResumeOptions.ofDefaults()).reserveOrNone();
    if (reserved.isEmpty()) {
      return CudaResult.OUT_OF_MEMORY;
    }
    try {
      return cuda.restore(target.pid(), List.of());
    } finally {
      reserved.get().close();
    }
  }

  private @Nullable ProcessState stateIfAlive() {
    return target.isGone() ? null : cuda.getState(target.pid()).value();
  }
}
