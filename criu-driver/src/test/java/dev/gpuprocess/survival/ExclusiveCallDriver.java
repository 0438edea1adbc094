package dev.gpuprocess.survival;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * A driver that notices when two are at one process at once, over all JVMs and class loaders that
 * have the same directory: each call that moves a process makes a directory there, and removes it.
 * That needs no descriptor.
 */
record ExclusiveCallDriver(CudaDriver driver, Path directory, Consumer<Violation> violations)
    implements CudaDriver {

  /** The index of the first argument after the name. */
  private static final int START_TICKS = 19;

  private <T> T alone(int pid, String function, Supplier<T> call) {
    Optional<Path> mark =
        startTicks(pid)
            .map(start -> directory.resolve(pid + "-" + start))
            .filter(path -> mark(path, pid, function));
    try {
      return call.get();
    } finally {
      mark.ifPresent(ExclusiveCallDriver::unmark);
    }
  }

  /** Empty also without free descriptors; then violations are not detected. */
  private static Optional<String> startTicks(int pid) {
    try {
      String stat = Files.readString(Path.of("/proc", Integer.toString(pid), "stat"));
      return Optional.of(stat.substring(stat.lastIndexOf(')') + 2).split(" ")[START_TICKS]);
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  private boolean mark(Path path, int pid, String function) {
    try {
      Files.createDirectory(path);
      return true;
    } catch (FileAlreadyExistsException another) {
      violations.accept(
          new Violation(
              Violation.Kind.WRONG,
              function + " of process " + pid + " while another call is at it"));
      return false;
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void unmark(Path path) {
    try {
      Files.delete(path);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
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
    return alone(pid, "lock", () -> driver.lock(pid, timeoutMs));
  }

  @Override
  public CudaResult checkpoint(int pid) {
    return alone(pid, "checkpoint", () -> driver.checkpoint(pid));
  }

  @Override
  public CudaResult restore(int pid, Map<GpuUuid, GpuUuid> pairs) {
    return alone(pid, "restore", () -> driver.restore(pid, pairs));
  }

  @Override
  public CudaResult unlock(int pid) {
    return alone(pid, "unlock", () -> driver.unlock(pid));
  }
}
