package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuPair;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.memory.DriverHook;
import dev.gpuprocess.internal.memory.LockGate;
import dev.gpuprocess.internal.reservation.GpuMemoryRefusal;
import dev.gpuprocess.internal.reservation.Reservation;
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
   * Restores and unlocks as needed, and journals the result. Waits for GPU memory as long as
   * closing would.
   *
   * @return true
   * @throws dev.gpuprocess.error.GpuCheckpointException when there was no room for it
   */
  boolean go() {
    ProcessState state = stateIfAlive();
    if (lock != null) {
      lock.moveBack().ifPresent(move -> target.sees(Optional.of(move)));
    }
    try {
      if (state == ProcessState.CHECKPOINTED && !target.isPoisoned()) {
        LOG.info("process {} is restored: {}", target.pid(), restoreWhenThereIsRoom());
        state = stateIfAlive();
      }
      if (state == ProcessState.LOCKED) {
        LOG.info("process {} is unlocked: {}", target.pid(), cuda.unlock(target.pid()));
        unlocked();
      }
    } finally {
      target.leaveAt(stateIfAlive());
    }
    return true;
  }

  /** Removes from an unlocked process what this library has changed in its libcuda. */
  void unlocked() {
    LockGate.remove(target.identity);
    DriverHook.removeFrom(target.identity);
  }

  /** Restores to where the memory was. */
  private CudaResult restoreWhenThereIsRoom() {
    ResumeOptions options = RoomWait.asWhenClosing(target.context.timeouts());
    return RoomWait.ofLocked(List.of(target), options)
        .retrying(
            () -> {
              try (Reservation room =
                  GpuRoom.check(target.context, List.of(target), options)
                      .reserve(this::refusal, why -> GpuRoom.impossible(why, failure()))
                      .reservations()
                      .get(0)) {
                LOG.debug("process {} is restored into {}", target.pid(), room);
                return restore(List.of());
              }
            });
  }

  /**
   * Calls the driver, and remembers it when the restore runs out of GPU memory: the driver refuses
   * every later one.
   */
  CudaResult restore(List<GpuPair> pairs) {
    CudaResult result = cuda.restore(target.pid(), pairs);
    if (result.equals(CudaResult.OUT_OF_MEMORY) && stateIfAlive() == ProcessState.CHECKPOINTED) {
      target.poison();
    }
    return result;
  }

  private InsufficientGpuMemoryException refusal(GpuMemoryRefusal why) {
    return why.exception(failure(), "the process stays checkpointed, resume it later");
  }

  private Failure failure() {
    return Failure.of("restore", target.pid());
  }

  private @Nullable ProcessState stateIfAlive() {
    return target.isGone() ? null : cuda.getState(target.pid()).value();
  }
}
