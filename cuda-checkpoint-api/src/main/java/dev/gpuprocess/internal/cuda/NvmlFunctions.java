package dev.gpuprocess.internal.cuda;

import jnr.ffi.Pointer;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;
import jnr.ffi.byref.IntByReference;
import jnr.ffi.byref.PointerByReference;
import org.jspecify.annotations.Nullable;

/**
 * The functions of {@code libnvidia-ml.so.1} as {@code nvml.h} declares them, for JNR, which needs
 * a public interface. Use {@code GpuInventory}.
 */
public interface NvmlFunctions {

  int nvmlInit_v2();

  int nvmlSystemGetDriverVersion(@Out byte[] version, int length);

  int nvmlDeviceGetCount_v2(@Out IntByReference count);

  int nvmlDeviceGetHandleByIndex_v2(int index, @Out PointerByReference device);

  int nvmlDeviceGetUUID(Pointer device, @Out byte[] uuid, int length);

  int nvmlDeviceGetName(Pointer device, @Out byte[] name, int length);

  int nvmlDeviceGetMemoryInfo(Pointer device, @Out Pointer memory);

  int nvmlDeviceGetComputeRunningProcesses_v3(
      Pointer device, IntByReference count, @In @Out @Nullable Pointer infos);
}
