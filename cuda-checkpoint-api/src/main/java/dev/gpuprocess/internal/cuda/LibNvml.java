package dev.gpuprocess.internal.cuda;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.NativeMemory;
import dev.gpuprocess.internal.time.Deadline;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.locks.ReentrantReadWriteLock;
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

  private static final int UNINITIALIZED = 1;
  private static final int INSUFFICIENT_SIZE = 7;
  private static final int DRIVER_NOT_LOADED = 9;
  private static final int GPU_IS_LOST = 15;
  private static final int RESET_REQUIRED = 16;
  private static final int UNKNOWN = 999;

  /**
   * A library that was initialised before the driver was loaded again, or a GPU was reset, returns
   * these until it is initialised again.
   */
  private static final Set<Integer> OUTDATED =
      Set.of(UNINITIALIZED, DRIVER_NOT_LOADED, GPU_IS_LOST, RESET_REQUIRED, UNKNOWN);

  private static final Duration NEXT_RENEWAL = Duration.ofSeconds(10);

  private static final int NOTHING_RETURNED = 0;
  private static final int TEXT_BYTES = 96;
  private static final int MEMORY_BYTES = 24;

  /** {@code nvmlProcessInfo_t}: u32 pid, 4 bytes padding, u64 bytes used, two u32 of MIG. */
  private static final int PROCESS_BYTES = 24;

  private final NativeLibrary<NvmlFunctions> library;
  private @Nullable Session session;
  private @Nullable Deadline newest;

  private LibNvml(@Nullable Path directory) {
    this(new NativeLibrary<>(NvmlFunctions.class, "libnvidia-ml.so.1", directory));
  }

  LibNvml(NativeLibrary<NvmlFunctions> library) {
    this.library = library;
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
      return Optional.of(using(nvml -> readGpus(nvml, true), nvml -> readGpus(nvml, false)));
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
    try {
      return Optional.of(using(LibNvml::readVersion, LibNvml::readVersion));
    } catch (NvmlFailure | MachineUnfitException | UnsatisfiedLinkError e) {
      LOG.debug("NVML cannot read the driver's version: {}", e.getMessage());
      return Optional.empty();
    }
  }

  /** Reads with NVML, and once more if it may have to be initialised again. */
  private <T> T using(Read<T> read, Read<T> again) throws NvmlFailure {
    Session first = session();
    try {
      return first.use(read);
    } catch (NvmlFailure e) {
      if (!OUTDATED.contains(e.code)) {
        throw e;
      }
      LOG.debug("NVML is outdated, and initialised again: {}: {}", renew(first), e.getMessage());
      return session().use(again);
    }
  }

  private synchronized Session session() throws NvmlFailure {
    Session known = session;
    if (known == null) {
      NvmlFunctions nvml = library.get();
      check("nvmlInit_v2", nvml.nvmlInit_v2());
      known = new Session(nvml);
      session = known;
    }
    return known;
  }

  /**
   * Ends a session, unless another thread reads with it, which may hang in the library, or the
   * session is new: a GPU that is really lost must not make each reading slow.
   */
  private synchronized boolean renew(Session outdated) {
    if (outdated.equals(session)) {
      if ((newest != null && !newest.passed()) || !outdated.isEnded()) {
        return false;
      }
      session = null;
      newest = Deadline.after(NEXT_RENEWAL);
    }
    return true;
  }

  /** A reading of the GPUs, or of something else. */
  private interface Read<T> {
    T of(NvmlFunctions nvml) throws NvmlFailure;
  }

  /** From nvmlInit to nvmlShutdown. */
  private static final class Session {

    private final NvmlFunctions nvml;
    private final ReentrantReadWriteLock users = new ReentrantReadWriteLock();

    Session(NvmlFunctions nvml) {
      this.nvml = nvml;
    }

    <T> T use(Read<T> read) throws NvmlFailure {
      users.readLock().lock();
      try {
        return read.of(nvml);
      } finally {
        users.readLock().unlock();
      }
    }

    boolean isEnded() {
      if (!users.writeLock().tryLock()) {
        return false;
      }
      try {
        int code = nvml.nvmlShutdown();
        LOG.debug("nvmlShutdown returned {}", code);
        return true;
      } finally {
        users.writeLock().unlock();
      }
    }
  }

  private static String readVersion(NvmlFunctions nvml) throws NvmlFailure {
    byte[] text = new byte[TEXT_BYTES];
    check("nvmlSystemGetDriverVersion", nvml.nvmlSystemGetDriverVersion(text, TEXT_BYTES));
    return string(text);
  }

  /**
   * Reads all GPUs.
   *
   * @param requiresCurrent whether to throw when a GPU cannot be read because the library may have
   *     to be initialised again
   */
  private static GpuReading readGpus(NvmlFunctions nvml, boolean requiresCurrent)
      throws NvmlFailure {
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
      } catch (NvmlFailure e) {
        if (requiresCurrent && OUTDATED.contains(e.code)) {
          throw e;
        }
        unreadable.add(unreadable(name, e));
      } catch (IllegalArgumentException e) {
        unreadable.add(unreadable(name, e));
      }
    }
    return new GpuReading(gpus, unreadable);
  }

  private static String unreadable(String name, Exception why) {
    LOG.debug("NVML cannot read {}: {}", name, why.getMessage());
    return name + ": " + why.getMessage();
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
      throw new NvmlFailure(
          NOTHING_RETURNED, "nvmlDeviceGetMemoryInfo reports %s of %s free".formatted(free, total));
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
      throw new NvmlFailure(code, function + " returned " + code);
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

    private final int code;

    NvmlFailure(int code, String message) {
      super(message);
      this.code = code;
    }
  }

  /** The functions as {@code nvml.h} declares them, for JNR, which needs a public interface. */
  public interface NvmlFunctions {

    int nvmlInit_v2();

    int nvmlShutdown();

    int nvmlSystemGetDriverVersion(@Out byte[] version, int length);

    int nvmlDeviceGetCount_v2(@Out IntByReference count);

    int nvmlDeviceGetHandleByIndex_v2(int index, @Out PointerByReference device);

    int nvmlDeviceGetUUID(Pointer device, @Out byte[] uuid, int length);

    int nvmlDeviceGetName(Pointer device, @Out byte[] name, int length);

    int nvmlDeviceGetMemoryInfo(Pointer device, long memory);

    int nvmlDeviceGetComputeRunningProcesses_v3(Pointer device, IntByReference count, long infos);
  }
}
