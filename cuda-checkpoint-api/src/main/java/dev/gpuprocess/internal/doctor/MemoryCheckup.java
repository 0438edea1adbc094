package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.AddressSpaceCheck;
import dev.gpuprocess.internal.engine.HostMemoryCheck;
import dev.gpuprocess.internal.memory.DriverHook;
import dev.gpuprocess.internal.reservation.GpuMemoryCheck;
import dev.gpuprocess.internal.reservation.GpuMemoryRefusal;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Checks the GPU memory of a process, and whether a suspend or resume has memory for it. */
final class MemoryCheckup {

  private final Checkup checkup;
  private final EngineContext context;
  private final ProcessIdentity process;

  MemoryCheckup(Checkup checkup, EngineContext context, ProcessIdentity process) {
    this.checkup = checkup;
    this.context = context;
    this.process = process;
  }

  /** Checks whether the resume of a checkpointed process would be refused. */
  void checkResumeCapacity() {
    GpuUsage held =
        new Journal(context.state()).find(process).map(JournalEntry::held).orElse(GpuUsage.UNKNOWN);
    if (checkup
        .query("GPUs", context.timeouts().call(), context.gpus()::read)
        .flatMap(found -> found)
        .isEmpty()) {
      checkup.warning(
          "GPU memory",
          "there is no NVML here, so a resume cannot be protected from running out of GPU memory",
          "make sure that as much memory is free as it held: " + held);
      return;
    }
    Optional<GpuMemoryRefusal> shortage =
        checkup
            .query(
                "GPU memory",
                context.timeouts().call(),
                new GpuMemoryCheck(
                        context,
                        List.of(new GpuMemoryCheck.Returning(process, held, Map.of())),
                        GpuMap.same())
                    ::whyNot)
            .flatMap(found -> found);
    if (shortage.isEmpty()) {
      checkup.ok(
          "GPU memory",
          held.complete()
              ? "there is enough for the memory that it held: " + held
              : "there is enough for the most that it can have held");
    } else {
      checkup.problem(
          "GPU memory",
          shortage.get().text(),
          shortage.get().isKnown()
              ? "free some, or let resume wait (ResumeOptions.waitForMemory)"
              : "free more, or declare its needs with ResumeOptions.needs");
    }
  }

  /** Checks whether the host has memory for the suspend of a process on the GPU. */
  void checkSuspendCapacity() {
    GpuUsage held = heldNow();
    long bytes = held.bytes();
    if (bytes == 0) {
      return;
    }
    checkup.ok("GPU memory", "it holds " + held);
    boolean isPrepared = isPrepared(bytes);
    AddressSpaceCheck.obstacle(process.pid(), bytes, isPrepared)
        .ifPresent(
            why ->
                checkup.problem(
                    "memory limit",
                    why + ": a suspend is refused",
                    AddressSpaceCheck.cure(process.pid())));
    if (!isPrepared) {
      HostMemoryCheck.obstacle(Map.of(process, bytes))
          .ifPresent(
              why ->
                  checkup.problem(
                      "memory limit",
                      why + ": a suspend is refused, as the kernel could kill the process",
                      "free memory, or raise the memory limit of its control group"));
    }
  }

  /** Reports how the memory will be copied; returns whether into host memory of this JVM. */
  private boolean isPrepared(long bytes) {
    Optional<String> obstacle =
        context.driverHook()
            ? DriverHook.obstacle(process)
            : Optional.of("the settings disable the driver hook");
    if (obstacle.isPresent()) {
      checkup.ok("copies", "the driver copies with one thread: " + obstacle.get());
      return false;
    }
    Optional<String> memory = context.hostMemory().obstacle(bytes);
    checkup.ok(
        "copies",
        "the driver's copies are divided among threads, into "
            + memory
                .map(why -> "memory that the driver maps and CRIU dumps: " + why)
                .orElse("host memory that is prepared, and from there into an image"));
    return memory.isEmpty();
  }

  private GpuUsage heldNow() {
    return GpuUsage.of(
        process.pid(),
        checkup
            .query("GPUs", context.timeouts().call(), context.gpus()::read)
            .flatMap(found -> found));
  }
}
