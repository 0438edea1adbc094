package dev.gpuprocess.internal.cuda;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.launch.CudaCall;
import dev.gpuprocess.internal.launch.CudaCall.Answer;
import dev.gpuprocess.internal.launch.CudaJobFile;
import dev.gpuprocess.internal.linux.NativeMemory;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.text.Printable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.ToIntBiFunction;
import java.util.function.ToIntFunction;
import jnr.ffi.annotations.Out;
import jnr.ffi.byref.IntByReference;
import jnr.ffi.byref.PointerByReference;
import org.jspecify.annotations.Nullable;

/**
 * {@code libcuda.so.1} through JNR. The library is loaded at the first call and each function is
 * looked up at its first call, so an older driver works for the functions that it has. {@code
 * cuInit} is never called: the checkpoint functions do not need it, and the caller needs no GPU.
 *
 * <p>Driver 590 and later (CUDA 13.1) reads the job file of a process from the environment of the
 * caller. A JVM has only one environment. So a small program with the right environment makes the
 * calls about a process that was started with {@code CUDA_CHECKPOINT_JOB_FILE}. Such calls run in
 * parallel, and take some milliseconds longer. This was tried on the simulated driver only.
 */
public final class LibCuda implements CudaDriver {

  /** Every argument struct of the checkpoint functions is this long; reserved bytes are zero. */
  private static final int ARGS_BYTES = 64;

  private static final long NO_ARGS = 0;

  private static final int PAIR_BYTES = 32;

  private final NativeLibrary<CudaFunctions> library;
  private final Map<Integer, CudaResult> results = new ConcurrentHashMap<>();

  /** The version; 0 until it is known. */
  private volatile int supported;

  private LibCuda(@Nullable Path directory) {
    library = new NativeLibrary<>(CudaFunctions.class, "libcuda.so.1", directory);
  }

  /**
   * Returns the driver of this machine: in the directory of the system property {@code
   * gpuprocess.driver.dir} or the environment variable {@code GPUPROCESS_DRIVER_DIR}, or else where
   * the dynamic loader finds it.
   *
   * @return the driver, not yet loaded
   */
  public static LibCuda system() {
    return new LibCuda(NativeLibrary.configuredDirectory());
  }

  /**
   * Returns the driver in a directory, such as a simulated one.
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
    Answer answer =
        read(
            "cuCheckpointProcessGetState",
            pid,
            (cuda, state) -> cuda.cuCheckpointProcessGetState(pid, state));
    // A failed call may have written any value.
    return answer.result() == 0
        ? new CudaAnswer<>(CudaResult.SUCCESS, ProcessState.of(answer.value()))
        : CudaAnswer.failed(result(answer.result()));
  }

  @Override
  public CudaAnswer<Integer> getRestoreThreadId(int pid) {
    Answer answer =
        read(
            "cuCheckpointProcessGetRestoreThreadId",
            pid,
            (cuda, tid) -> cuda.cuCheckpointProcessGetRestoreThreadId(pid, tid));
    return answer.result() == 0
        ? new CudaAnswer<>(CudaResult.SUCCESS, answer.value())
        : CudaAnswer.failed(result(answer.result()));
  }

  @Override
  public CudaResult lock(int pid, int timeoutMs) {
    return move(
        "cuCheckpointProcessLock",
        pid,
        timeoutMs,
        Map.of(),
        cuda -> {
          NativeMemory args = NativeMemory.of(ARGS_BYTES);
          args.putInt(0, timeoutMs);
          return (int) args.with(address -> cuda.cuCheckpointProcessLock(pid, address));
        });
  }

  @Override
  public CudaResult checkpoint(int pid) {
    return move(
        "cuCheckpointProcessCheckpoint",
        pid,
        0,
        Map.of(),
        cuda -> cuda.cuCheckpointProcessCheckpoint(pid, NO_ARGS));
  }

  @Override
  public CudaResult restore(int pid, Map<GpuUuid, GpuUuid> pairs) {
    return move(
        "cuCheckpointProcessRestore",
        pid,
        0,
        pairs,
        cuda ->
            pairs.isEmpty()
                ? cuda.cuCheckpointProcessRestore(pid, NO_ARGS)
                : restoreElsewhere(cuda, pid, pairs));
  }

  /** Returns an array of {@code CUcheckpointGpuPair}. */
  private static byte[] bytes(Map<GpuUuid, GpuUuid> pairs) {
    ByteBuffer all = ByteBuffer.allocate(PAIR_BYTES * pairs.size());
    pairs.forEach((from, to) -> all.put(from.bytes()).put(to.bytes()));
    return all.array();
  }

  private static int restoreElsewhere(CudaFunctions cuda, int pid, Map<GpuUuid, GpuUuid> pairs) {
    NativeMemory block = NativeMemory.of(PAIR_BYTES * pairs.size());
    block.write(0, bytes(pairs));
    NativeMemory args = NativeMemory.of(ARGS_BYTES);
    return (int)
        block.with(
            first -> {
              args.putLong(0, first);
              args.putInt(8, pairs.size());
              return args.with(address -> cuda.cuCheckpointProcessRestore(pid, address));
            });
  }

  @Override
  public CudaResult unlock(int pid) {
    return move(
        "cuCheckpointProcessUnlock",
        pid,
        0,
        Map.of(),
        cuda -> cuda.cuCheckpointProcessUnlock(pid, NO_ARGS));
  }

  private Answer read(
      String function, int pid, ToIntBiFunction<CudaFunctions, IntByReference> body) {
    return withJobFile(function, pid, 0, Map.of())
        .orElseGet(
            () -> {
              IntByReference value = new IntByReference();
              int code = call(function, cuda -> body.applyAsInt(cuda, value));
              return new Answer(code, value.intValue());
            });
  }

  private CudaResult move(
      String function,
      int pid,
      int timeoutMs,
      Map<GpuUuid, GpuUuid> pairs,
      ToIntFunction<CudaFunctions> body) {
    return result(
        withJobFile(function, pid, timeoutMs, pairs)
            .map(Answer::result)
            .orElseGet(() -> call(function, body)));
  }

  /**
   * Makes a call about a process of a job that has a job file; see {@link CudaCall}.
   *
   * @return empty if the process has no job file, or this driver uses none
   */
  private Optional<Answer> withJobFile(
      String function, int pid, int timeoutMs, Map<GpuUuid, GpuUuid> pairs) {
    if (!keepsJobFiles()) {
      return Optional.empty();
    }
    Optional<OpenedFile> jobFile = jobFile(function, pid);
    if (jobFile.isEmpty()) {
      return Optional.empty();
    }
    try {
      try (OpenedFile opened = jobFile.get()) {
        return Optional.of(
            CudaCall.make(
                opened.descriptor(), library.toString(), function, pid, timeoutMs, bytes(pairs)));
      }
    } catch (IOException e) {
      throw new MachineUnfitException(
          MachineUnfitException.Reason.NO_CUDA_DRIVER,
          "%s cannot be called by a program of its own for process %s, whose job has a job file: %s"
              .formatted(library, pid, Printable.of(String.valueOf(e.getMessage()))),
          Failure.of(function, pid),
          e);
    }
  }

  private static Optional<OpenedFile> jobFile(String function, int pid) {
    try {
      return CudaJobFile.open(pid);
    } catch (ProcessUnreadableException e) {
      return Optional.empty(); // the driver itself refuses the call
    } catch (FileSystemException e) {
      return Optional.empty(); // the process could not open it either
    } catch (IOException e) {
      throw unavailable(function, pid, e);
    }
  }

  /** Returns the exception for a job file whose file system does not answer. */
  static OperationTimedOutException unavailable(String function, int pid, IOException why) {
    return new OperationTimedOutException(
        "the job file of process %s could not be opened, so the driver was not called (%s): find out what blocks its file system, and retry"
            .formatted(pid, Printable.of(String.valueOf(why.getMessage()))),
        Failure.of(function, pid),
        why);
  }

  /** Returns whether this driver uses job files, by its version. */
  private boolean keepsJobFiles() {
    int known = supported;
    if (known == 0) {
      IntByReference found = new IntByReference();
      int code = call("cuDriverGetVersion", cuda -> cuda.cuDriverGetVersion(found));
      known = code == 0 ? found.intValue() : 0;
      supported = known;
    }
    return CudaJobFile.isKnownTo(known);
  }

  /**
   * Returns a result with the driver's name and text, also for numbers that this library does not
   * know.
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
      return new MachineUnfitException(
          MachineUnfitException.Reason.NO_CUDA_DRIVER,
          library
              + " is not an NVIDIA driver, as it has no cuDriverGetVersion: install the driver, or"
              + " correct the directory of its libraries in GPUPROCESS_DRIVER_DIR",
          Failure.of(function, 0),
          cause);
    }
    int found = version();
    return new MachineUnfitException(
        MachineUnfitException.Reason.DRIVER_TOO_OLD,
        "the NVIDIA driver here supports CUDA %s.%s and has no %s; CUDA 12.8 (driver 570) or later is needed: update the driver"
            .formatted(found / 1000, found % 1000 / 10, function),
        Failure.of(function, 0),
        cause);
  }

  /** The functions as {@code cuda.h} declares them, for JNR, which needs a public interface. */
  public interface CudaFunctions {

    int cuDriverGetVersion(@Out IntByReference version);

    int cuGetErrorName(int error, @Out PointerByReference name);

    int cuGetErrorString(int error, @Out PointerByReference text);

    int cuCheckpointProcessGetState(int pid, @Out IntByReference state);

    int cuCheckpointProcessGetRestoreThreadId(int pid, @Out IntByReference tid);

    int cuCheckpointProcessLock(int pid, long args);

    int cuCheckpointProcessCheckpoint(int pid, long args);

    int cuCheckpointProcessRestore(int pid, long args);

    int cuCheckpointProcessUnlock(int pid, long args);
  }
}
