package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.text.Bytes;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Checks the CUDA driver and the GPUs. */
final class DriverCheckup {

  /** A pid above the kernel's limit: each function fails at once and changes nothing. */
  private static final int NO_PROCESS = Integer.MAX_VALUE;

  /** The results of {@code cuDriverGetVersion} of driver 580 and of driver 615. */
  private static final int FIRST_WITH_PAIRS = 13000;

  private static final int FIRST_WITH_STORAGE = 13040;

  private static final Path PERSISTENCE = Path.of("/run/nvidia-persistenced/socket");

  private final Checkup checkup;
  private final CudaDriver cuda;
  private final EngineContext context;
  private final Duration deadline;

  DriverCheckup(Checkup checkup, EngineContext context) {
    this.checkup = checkup;
    this.context = context;
    this.cuda = context.cuda();
    this.deadline = context.timeouts().call();
  }

  void look() {
    checkup.query("libcuda", deadline, cuda::version).ifPresent(this::lookAtDriver);
    lookAtGpus();
  }

  private void lookAtDriver(int version) {
    Optional<String> driver =
        checkup.query("NVML", deadline, context.gpus()::driverVersion).flatMap(found -> found);
    checkup.ok(
        "libcuda",
        "supports CUDA %s.%s%s"
            .formatted(
                version / 1000, version % 1000 / 10, driver.map(", driver "::concat).orElse("")));
    lookAtFunctions();
    if (version >= FIRST_WITH_PAIRS) {
      checkup.ok("GPU pairs", "a process can be resumed on another GPU");
    } else {
      checkup.warning(
          "GPU pairs",
          "this driver resumes a process only on the GPU it was on",
          "update to driver 580 or later if you need more");
    }
    checkup.ok(
        "custom storage",
        version >= FIRST_WITH_STORAGE
            ? "this driver can hand GPU memory to its caller (driver 615)"
            : "this driver moves GPU memory to the process's own host memory only");
  }

  private void lookAtFunctions() {
    Map<String, Runnable> functions = new LinkedHashMap<>();
    functions.put("cuCheckpointProcessGetState", () -> cuda.getState(NO_PROCESS));
    functions.put(
        "cuCheckpointProcessGetRestoreThreadId", () -> cuda.getRestoreThreadId(NO_PROCESS));
    functions.put("cuCheckpointProcessLock", () -> cuda.lock(NO_PROCESS, 1));
    functions.put("cuCheckpointProcessCheckpoint", () -> cuda.checkpoint(NO_PROCESS));
    functions.put("cuCheckpointProcessRestore", () -> cuda.restore(NO_PROCESS, Map.of()));
    functions.put("cuCheckpointProcessUnlock", () -> cuda.unlock(NO_PROCESS));
    functions.forEach(
        (name, call) ->
            checkup
                .query(name, deadline, () -> isThere(call))
                .ifPresent(found -> addFunction(name, found)));
  }

  private static boolean isThere(Runnable call) {
    try {
      call.run();
      return true;
    } catch (MachineUnfitException e) {
      if (e.reason() != MachineUnfitException.Reason.DRIVER_TOO_OLD) {
        throw e;
      }
      return false;
    }
  }

  private void addFunction(String name, boolean found) {
    if (found) {
      checkup.ok(name, "is available");
    } else {
      checkup.problem(name, "is missing from this driver", "update to driver 570 or later");
    }
  }

  private void lookAtGpus() {
    Optional<GpuReading> reading =
        checkup.query("GPUs", deadline, context.gpus()::read).flatMap(found -> found);
    if (reading.isEmpty()) {
      checkup.warning(
          "GPUs",
          "NVML reports none, so a resume cannot be protected from running out of GPU memory",
          "install the driver's libnvidia-ml.so.1");
      return;
    }
    List<Gpu> gpus = reading.get().gpus();
    for (String unreadable : reading.get().unreadable()) {
      checkup.problem(
          "GPUs",
          "NVML cannot read " + unreadable + ", so no process is resumed there",
          "run nvidia-smi, and look for Xid lines in the kernel's log (dmesg)");
    }
    if (gpus.isEmpty() && reading.get().unreadable().isEmpty()) {
      checkup.problem(
          "GPUs", "NVML finds none", "check that the device is passed to this machine (lspci)");
      return;
    }
    for (Gpu gpu : gpus) {
      checkup.ok(gpu.uuid().text(), describe(gpu));
    }
    lookAtDeviceFiles();
  }

  private static String describe(Gpu gpu) {
    List<Integer> users = gpu.users().stream().map(Gpu.User::pid).toList();
    return "%s, %s of %s free%s"
        .formatted(
            gpu.name(),
            Bytes.text(gpu.freeBytes()),
            Bytes.text(gpu.totalBytes()),
            users.isEmpty() ? "" : ", used by " + users);
  }

  /** The driver creates them when it is loaded; a container gets them from its runtime. */
  private void lookAtDeviceFiles() {
    for (String name : List.of("/dev/nvidiactl", "/dev/nvidia-uvm")) {
      Path file = Path.of(name);
      if (!Files.isReadable(file) || !Files.isWritable(file)) {
        checkup.warning(
            name,
            Files.exists(file)
                ? "cannot be opened by this user, so this user cannot start CUDA programs"
                : "is missing, so CUDA programs cannot start here",
            Files.exists(file)
                ? "give the user read and write permission"
                : "run nvidia-modprobe -u -c 0");
      }
    }
    if (Files.exists(PERSISTENCE)) {
      checkup.ok("persistence", "nvidia-persistenced keeps idle GPUs initialised");
    } else {
      checkup.ok(
          "persistence",
          "nvidia-persistenced is not visible here; without it an idle GPU is shut down, and the next"
              + " resume initialises it again",
          "start it, or run nvidia-smi -pm 1");
    }
  }
}
