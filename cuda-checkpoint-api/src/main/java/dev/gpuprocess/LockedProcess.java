package dev.gpuprocess;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * A process whose CUDA calls wait. Closing it unlocks it, unless it was handed on by {@link
 * #checkpoint()} or {@link #unlock()}.
 */
public final class LockedProcess extends LiveProcess implements GpuProcess, AutoCloseable {

  LockedProcess(StateObject self) {
    super(self, ProcessState.LOCKED);
  }

  /**
   * Moves the GPU memory of the process to host memory ({@code cuCheckpointProcessCheckpoint}). The
   * GPU is free of it then; its host memory grows by what it held.
   *
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.UnsupportedByDriverException when it uses something that cannot be
   *     checkpointed, such as managed memory; it stays locked
   * @throws dev.gpuprocess.error.StaleStateException when the process is no longer locked
   */
  public CheckpointedProcess checkpoint() {
    return self.move(
        "checkpoint",
        ProcessState.LOCKED,
        (verb, steps) -> {
          Map<GpuUuid, Long> held = heldNow();
          long bytes = held.values().stream().mapToLong(Long::longValue).sum();
          self.target().nowHolds(held);
          steps.run("checkpoint", bytes, verb::checkpoint);
        },
        CheckpointedProcess::new);
  }

  private Map<GpuUuid, Long> heldNow() {
    Map<GpuUuid, Long> held = new TreeMap<>();
    for (Gpu gpu : self.target().checkpoints.inventory().gpus().orElse(List.of())) {
      gpu.users().stream()
          .filter(user -> user.pid() == pid())
          .forEach(user -> held.put(gpu.uuid(), user.bytes()));
    }
    return held;
  }

  /**
   * Lets the CUDA calls of the process go on ({@code cuCheckpointProcessUnlock}).
   *
   * @return the running process
   * @throws dev.gpuprocess.error.StaleStateException when the process is no longer locked
   */
  public RunningProcess unlock() {
    return self.bringBack(
        "unlock",
        ProcessState.LOCKED,
        (verb, steps) -> steps.run("unlock", 0, verb::unlock),
        RunningProcess::new);
  }

  /** Unlocks the process unless it was handed on; does nothing when the process has ended. */
  @Override
  public void close() {
    self.close(this::unlock);
  }
}
