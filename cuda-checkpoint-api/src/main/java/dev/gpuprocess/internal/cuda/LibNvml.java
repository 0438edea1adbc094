package dev.gpuprocess.internal.cuda;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.NativeMemory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import jnr.ffi.Pointer;
import jnr.ffi.annotations.Out;
import jnr.ffi.byref.IntByReference;
import jnr.ffi.byref.PointerByReference;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * {@code libnvidia-ml.so.1} through JNR. It lists the GPUs, their free memory, and the processes
 * that use the rest, which the checkpoint functions do not report. It uses no GPU memory and no
 * CUDA context. The library is loaded at the first call; without it, every result is empty. Safe
 * for use by several threads.
 */
public final class LibNvml implements GpuInventory {

  private static final Logger LOG = LoggerFactory.getLogger(LibNvml.class);

  private static final int INSUFFICIENT_SIZE = 7;
  private static final int TEXT_BYTES = 96;
  private static final int MEMORY_BYTES = 24;

  /** {@code nvmlProcessInfo_t}: u32 pid, 4 bytes padding, u64 bytes used, two u32 of MIG. */
  private static final int PROCESS_BYTES = 24;

  private final NativeLibrary<NvmlFunctions> library;
  private volatile @Nullable NvmlFunctions initialised;

  private LibNvml(@Nullable Path directory) {
    library = new NativeLibrary<>(NvmlFunctions.class, "libnvidia-ml.so.1", directory);
  }

  /**
   * Returns the library of this machine, from the same places as {@link LibCuda#system()}.
   *
   * @return the library, not yet loaded
   */
  public static LibNvml system() {
    return new LibNvml(NativeLibrary.configuredDirectory());
  }

  /**
   * Returns the library in a directory, such as a simulated one.
   *
   * @param directory holds {@code libnvidia-ml.so.1}
   * @return the library, not yet loaded
   */
  public static LibNvml in(Path directory) {
    return new LibNvml(directory.toAbsolutePath());
  }

  @Override
  public Optional<List<Gpu>> gpus() {
    return read()
        .filter(reading -> reading.unreadable().isEmpty() || !reading.gpus().isEmpty())
        .map(GpuReading::gpus);
  }

  @Override
  public Optional<GpuReading> read() {
    try {
      return Optional.of(readGpus(start()));
    } catch (NvmlFailure e) {
      LOG.debug("NVML cannot list the GPUs: {}", e.getMessage());
      return Optional.of(new GpuReading(List.of(), List.of("NVML: " + e.getMessage())));
    } catch (MachineUnfitException | UnsatisfiedLinkError e) {
      LOG.debug("there is no NVML: {}", e.getMessage());
      // A library that exists is not missing if it cannot be loaded now, as without a free
      // descriptor.
      return library.isThere()
          ? Optional.of(new GpuReading(List.of(), List.of("NVML: " + e.getMessage())))
          : Optional.empty();
    }
  }

  @Override
  public Optional<String> driverVersion() {
    byte[] text = new byte[TEXT_BYTES];
    try {
      check("nvmlSystemGetDriverVersion", start().nvmlSystemGetDriverVersion(text, TEXT_BYTES));
      return Optional.of(string(text));
    } catch (NvmlFailure | MachineUnfitException | UnsatisfiedLinkError e) {
      LOG.debug("NVML cannot read the driver's version: {}", e.getMessage());
      return Optional.empty();
    }
  }

  private NvmlFunctions start() throws NvmlFailure {
    NvmlFunctions nvml = initialised;
    if (nvml == null) {
      nvml = library.get();
      check("nvmlInit_v2", nvml.nvmlInit_v2());
      initialised = nvml;
    }
    return nvml;
  }

  private static GpuReading readGpus(NvmlFunctions nvml) throws NvmlFailure {
    IntByReference count = new IntByReference();
    check("nvmlDeviceGetCount_v2", nvml.nvmlDeviceGetCount_v2(count));
    List<Gpu> gpus = new ArrayList<>();
    List<String> unreadable = new ArrayList<>();
    for (int i = 0; i < count.intValue(); i++) {
      String name = "GPU " + i;
      try {
        PointerByReference device = new PointerByReference();
        check("nvmlDeviceGetHandleByIndex_v2", nvml.nvmlDeviceGetHandleByIndex_v2(i, device));
        byte[] uuid = new byte[TEXT_BYTES];
        check("nvmlDeviceGetUUID", nvml.nvmlDeviceGetUUID(device.getValue(), uuid, TEXT_BYTES));
        name = string(uuid);
        gpus.add(readGpu(nvml, device.getValue(), GpuUuid.of(name)));
      } catch (NvmlFailure | IllegalArgumentException e) {
        LOG.debug("NVML cannot read {}: {}", name, e.getMessage());
        unreadable.add(name + ": " + e.getMessage());
      }
    }
    return new GpuReading(gpus, unreadable);
  }

  private static Gpu readGpu(NvmlFunctions nvml, Pointer device, GpuUuid uuid) throws NvmlFailure {
    byte[] name = new byte[TEXT_BYTES];
    check("nvmlDeviceGetName", nvml.nvmlDeviceGetName(device, name, TEXT_BYTES));
    NativeMemory memory = NativeMemory.of(MEMORY_BYTES);
    check(
        "nvmlDeviceGetMemoryInfo",
        (int) memory.with(address -> nvml.nvmlDeviceGetMemoryInfo(device, address)));
    long total = memory.getLong(0);
    long free = memory.getLong(8);
    if (free < 0 || free > total) {
      throw new NvmlFailure("nvmlDeviceGetMemoryInfo reports %s of %s free".formatted(free, total));
    }
    return new Gpu(uuid, string(name), total, free, readUsers(nvml, device));
  }

  private static List<Gpu.User> readUsers(NvmlFunctions nvml, Pointer device) throws NvmlFailure {
    // The number of processes may grow between two calls, so the call is repeated until they fit.
    int capacity = 16;
    while (true) {
      NativeMemory infos = NativeMemory.of(capacity * PROCESS_BYTES);
      IntByReference count = new IntByReference(capacity);
      int code =
          (int)
              infos.with(
                  address -> nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, count, address));
      if (code != INSUFFICIENT_SIZE) {
        check("nvmlDeviceGetComputeRunningProcesses_v3", code);
        List<Gpu.User> users = new ArrayList<>();
        for (int i = 0; i < count.intValue(); i++) {
          int at = i * PROCESS_BYTES;
          // NVML_VALUE_NOT_AVAILABLE is all ones.
          long bytes = infos.getLong(at + 8);
          users.add(
              new Gpu.User(
                  infos.getInt(at), bytes < 0 ? OptionalLong.empty() : OptionalLong.of(bytes)));
        }
        return List.copyOf(users);
      }
      capacity = Math.max(capacity * 2, count.intValue() * 2);
    }
  }

  private static void check(String function, int code) throws NvmlFailure {
    if (code != 0) {
      throw new NvmlFailure(function + " returned " + code);
    }
  }

  private static String string(byte[] text) {
    int end = 0;
    while (end < text.length && text[end] != 0) {
      end++;
    }
    return new String(text, 0, end, StandardCharsets.UTF_8);
  }

  private static final class NvmlFailure extends Exception {
    private static final long serialVersionUID = 1L;

    NvmlFailure(String message) {
      super(message);
    }
  }

  /** The functions as {@code nvml.h} declares them, for JNR, which needs a public interface. */
  public interface NvmlFunctions {

    int nvmlInit_v2();

    int nvmlSystemGetDriverVersion(@Out byte[] version, int length);

    int nvmlDeviceGetCount_v2(@Out IntByReference count);

    int nvmlDeviceGetHandleByIndex_v2(int index, @Out PointerByReference device);

    int nvmlDeviceGetUUID(Pointer device, @Out byte[] uuid, int length);

    int nvmlDeviceGetName(Pointer device, @Out byte[] name, int length);

    int nvmlDeviceGetMemoryInfo(Pointer device, long memory);

    int nvmlDeviceGetComputeRunningProcesses_v3(Pointer device, IntByReference count, long infos);
  }
}
