package dev.gpuprocess.internal.cuda;

import jnr.ffi.Pointer;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;
import jnr.ffi.byref.IntByReference;
import jnr.ffi.byref.PointerByReference;
import org.jspecify.annotations.Nullable;

/**
 * The functions of {@code libcuda.so.1} as {@code cuda.h} declares them, for JNR, which needs a
 * public interface. Use {@code CudaDriver}.
 */
public interface CudaFunctions {

  int cuDriverGetVersion(@Out IntByReference version);

  int cuGetErrorName(int error, @Out PointerByReference name);

  int cuGetErrorString(int error, @Out PointerByReference text);

  int cuCheckpointProcessGetState(int pid, @Out IntByReference state);

  int cuCheckpointProcessGetRestoreThreadId(int pid, @Out IntByReference tid);

  int cuCheckpointProcessLock(int pid, @In @Nullable Pointer args);

  int cuCheckpointProcessCheckpoint(int pid, @In @Nullable Pointer args);

  int cuCheckpointProcessRestore(int pid, @In @Nullable Pointer args);

  int cuCheckpointProcessUnlock(int pid, @In @Nullable Pointer args);
}
