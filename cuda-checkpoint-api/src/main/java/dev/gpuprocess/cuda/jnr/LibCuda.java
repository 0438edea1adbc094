package dev.gpuprocess.cuda.jnr;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.DriverTooOldException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoCudaDriverException;
import dev.gpuprocess.gpu.GpuPair;
import dev.gpuprocess.internal.jnr.CudaFunctions;
import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.ToIntFunction;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import jnr.ffi.byref.IntByReference;
import jnr.ffi.byref.PointerByReference;
import org.jspecify.annotations.Nullable;

/**
 * {@code libcuda.so.1} through JNR. The library is loaded at the first call and each function is
 * looked up at its first call, so an older driver works for the functions that it has. {@code
 * cuInit} is never called: the checkpoint functions do not need it, and the caller needs no GPU.
 */
public final class LibCuda implements CudaDriver {

  /** Every argument struct of the checkpoint functions is this long; reserved bytes are zero. */
  private static final int ARGS_BYTES = 64;

  private static final int PAIR_BYTES = 32;
  private static final int UUID_BYTES = 16;

  private final NativeLibrary<CudaFunctions> library;
  private final Map<Integer, CudaResult> results = new ConcurrentHashMap<>();

  private LibCuda(@Nullable Path directory) {
    library = new NativeLibrary<>(CudaFunctions.class, "libcuda.so.1", directory);
  }

  /**
   * The driver of this machine, from the directory that the system property {@code
   * gpuprocess.driver.dir} or the environment variable {@code GPUPROCESS_DRIVER_DIR} names, or else
   * from where the dynamic loader finds it.
   *
   * @return the driver, not yet loaded
   */
  public static LibCuda system() {
    return new LibCuda(NativeLibrary.configuredDirectory());
  }

  /**
   * The driver library in a directory, such as a simulated one.
   *
   * @param directory holds {@code libcuda.so.1}
   * @return the driver, not yet loaded
   */
  public static LibCuda in(Path directory) {
    return new LibCuda(directory.toAbsolutePath());
  }

  @Override
  public int version() {
    IntByReference version = new IntByReference();
    int code = call("cuDriverGetVersion", cuda -> cuda.cuDriverGetVersion(version));
    if (code != 0) {
      throw new IllegalStateException("cuDriverGetVersion answers " + result(code));
    }
    return version.intValue();
  }

  @Override
  public CudaAnswer<ProcessState> getState(int pid) {
    IntByReference state = new IntByReference();
    int code =
        call("cuCheckpointProcessGetState", cuda -> cuda.cuCheckpointProcessGetState(pid, state));
    // What the call wrote means nothing unless it succeeded.
    return code == 0
        ? new CudaAnswer<>(CudaResult.SUCCESS, ProcessState.of(state.intValue()))
        : CudaAnswer.failed(result(code));
  }

  @Override
  public CudaAnswer<Integer> getRestoreThreadId(int pid) {
    IntByReference tid = new IntByReference();
    int code =
        call(
            "cuCheckpointProcessGetRestoreThreadId",
            cuda -> cuda.cuCheckpointProcessGetRestoreThreadId(pid, tid));
    return code == 0
        ? new CudaAnswer<>(CudaResult.SUCCESS, tid.intValue())
        : CudaAnswer.failed(result(code));
  }

  @Override
  public CudaResult lock(int pid, int timeoutMs) {
    return result(
        call(
            "cuCheckpointProcessLock",
            cuda -> {
              Pointer args = zeroed(cuda, ARGS_BYTES);
              args.putInt(0, timeoutMs);
              return cuda.cuCheckpointProcessLock(pid, args);
            }));
  }

  @Override
  public CudaResult checkpoint(int pid) {
    return result(
        call(
            "cuCheckpointProcessCheckpoint",
            cuda -> cuda.cuCheckpointProcessCheckpoint(pid, null)));
  }

  @Override
  public CudaResult restore(int pid, List<GpuPair> pairs) {
    return result(
        call(
            "cuCheckpointProcessRestore",
            cuda ->
                pairs.isEmpty()
                    ? cuda.cuCheckpointProcessRestore(pid, null)
                    : restoreElsewhere(cuda, pid, pairs)));
  }

  private static int restoreElsewhere(CudaFunctions cuda, int pid, List<GpuPair> pairs) {
    Pointer block = zeroed(cuda, PAIR_BYTES * pairs.size());
    for (int i = 0; i < pairs.size(); i++) {
      long at = (long) i * PAIR_BYTES;
      block.put(at, pairs.get(i).from().bytes(), 0, UUID_BYTES);
      block.put(at + UUID_BYTES, pairs.get(i).to().bytes(), 0, UUID_BYTES);
    }
    Pointer args = zeroed(cuda, ARGS_BYTES);
    args.putPointer(0, block);
    args.putInt(8, pairs.size());
    try {
      return cuda.cuCheckpointProcessRestore(pid, args);
    } finally {
      // The struct holds the bare address: nothing else keeps the block from being collected.
      Reference.reachabilityFence(block);
    }
  }

  @Override
  public CudaResult unlock(int pid) {
    return result(
        call("cuCheckpointProcessUnlock", cuda -> cuda.cuCheckpointProcessUnlock(pid, null)));
  }

  /**
   * Names a result as this driver does: a newer driver knows numbers that this library does not.
   */
  private CudaResult result(int code) {
    return code == 0 ? CudaResult.SUCCESS : results.computeIfAbsent(code, this::ask);
  }

  private CudaResult ask(int code) {
    CudaFunctions cuda = library.get();
    PointerByReference name = new PointerByReference();
    PointerByReference text = new PointerByReference();
    boolean known = cuda.cuGetErrorName(code, name) == 0 && cuda.cuGetErrorString(code, text) == 0;
    return known
        ? new CudaResult(code, name.getValue().getString(0), text.getValue().getString(0))
        : new CudaResult(code, "CUDA_ERROR_" + code, "the driver has no text for this number");
  }

  private int call(String function, ToIntFunction<CudaFunctions> body) {
    CudaFunctions cuda = library.get();
    try {
      return body.applyAsInt(cuda);
    } catch (UnsatisfiedLinkError e) {
      throw missing(function, e);
    }
  }

  private GpuCheckpointException missing(String function, UnsatisfiedLinkError cause) {
    if (function.equals("cuDriverGetVersion")) {
      return new NoCudaDriverException(
          library
              + " is not an NVIDIA driver, as it has no cuDriverGetVersion: install the driver, or"
              + " correct the directory of its libraries in GPUPROCESS_DRIVER_DIR",
          Failure.of(function, 0),
          cause);
    }
    int found = version();
    return new DriverTooOldException(
        "the NVIDIA driver here supports CUDA %s.%s and has no %s; CUDA 12.8 (driver 570) or later is needed: update the driver"
            .formatted(found / 1000, found % 1000 / 10, function),
        Failure.of(function, 0),
        cause);
  }

  private static Pointer zeroed(CudaFunctions cuda, int bytes) {
    Pointer block = Memory.allocateDirect(Runtime.getRuntime(cuda), bytes, true);
    block.setMemory(0, bytes, (byte) 0);
    return block;
  }
}
