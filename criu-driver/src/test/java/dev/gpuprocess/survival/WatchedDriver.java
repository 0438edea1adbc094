package dev.gpuprocess.survival;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import java.util.Map;
import java.util.function.Supplier;

/** A driver that reports each of its calls on a process before and after it. */
record WatchedDriver(CudaDriver driver, FaultPoints moments) implements CudaDriver {

  static final String BEFORE = "before ";
  static final String AFTER = "after ";

  private <T> T call(String function, Supplier<T> body) {
    moments.reached(BEFORE + function);
    T answer = body.get();
    moments.reached(AFTER + function);
    return answer;
  }

  @Override
  public int version() {
    return driver.version();
  }

  @Override
  public CudaAnswer<ProcessState> getState(int pid) {
    return call("cuCheckpointProcessGetState", () -> driver.getState(pid));
  }

  @Override
  public CudaAnswer<Integer> getRestoreThreadId(int pid) {
    return driver.getRestoreThreadId(pid);
  }

  @Override
  public CudaResult lock(int pid, int timeoutMs) {
    return call("cuCheckpointProcessLock", () -> driver.lock(pid, timeoutMs));
  }

  @Override
  public CudaResult checkpoint(int pid) {
    return call("cuCheckpointProcessCheckpoint", () -> driver.checkpoint(pid));
  }

  @Override
  public CudaResult restore(int pid, Map<GpuUuid, GpuUuid> pairs) {
    return call("cuCheckpointProcessRestore", () -> driver.restore(pid, pairs));
  }

  @Override
  public CudaResult unlock(int pid) {
    return call("cuCheckpointProcessUnlock", () -> driver.unlock(pid));
  }
}
