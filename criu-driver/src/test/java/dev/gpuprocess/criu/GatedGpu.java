package dev.gpuprocess.criu;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A driver whose GPUs are busy, and whose checkpoints wait for the test. */
final class GatedGpu implements CudaDriver {

  /** Locks with a longer timeout succeed, because the work has ended. */
  private static final Duration WORK = Duration.ofSeconds(1);

  private final CudaDriver driver;

  /** The number of locks that timed out. */
  final AtomicInteger refused = new AtomicInteger();

  volatile boolean busy;

  /** Released when a checkpoint has begun. */
  volatile boolean atGate;

  /** Checkpoints wait for this. */
  volatile CountDownLatch gate = new CountDownLatch(0);

  GatedGpu(CudaDriver driver) {
    this.driver = driver;
  }

  @Override
  public int version() {
    return driver.version();
  }

  @Override
  public CudaAnswer<ProcessState> getState(int pid) {
    return driver.getState(pid);
  }

  @Override
  public CudaAnswer<Integer> getRestoreThreadId(int pid) {
    return driver.getRestoreThreadId(pid);
  }

  @Override
  public CudaResult lock(int pid, int timeoutMs) {
    if (busy && timeoutMs < WORK.toMillis()) {
      refused.incrementAndGet();
      return CudaResult.NOT_READY;
    }
    return driver.lock(pid, timeoutMs);
  }

  @Override
  public CudaResult checkpoint(int pid) {
    atGate = true;
    try {
      if (!gate.await(Trainer.PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
        throw new IllegalStateException("the gate was not opened");
      }
    } catch (InterruptedException e) {
      throw new IllegalStateException("a driver call was interrupted", e);
    }
    return driver.checkpoint(pid);
  }

  @Override
  public CudaResult restore(int pid, Map<GpuUuid, GpuUuid> pairs) {
    return driver.restore(pid, pairs);
  }

  @Override
  public CudaResult unlock(int pid) {
    return driver.unlock(pid);
  }
}
