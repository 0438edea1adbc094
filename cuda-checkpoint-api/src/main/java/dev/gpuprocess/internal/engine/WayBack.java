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
 * Brings a process to running from wherever it is, as far as that is safe. On whatever thread,
 * however late: its pid may belong to another process by then.
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
   * Goes it.
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

  /** Restores without a look at what a caller may want; OUT_OF_MEMORY when there is no room. */
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
