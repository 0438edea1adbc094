package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.driver.DriverHook;
import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.room.GpuMemoryCheck;
import dev.gpuprocess.internal.room.GpuMemoryRefusal;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** Checks how much memory a process holds on the GPUs, and whether it fits where it would go. */
final class MemoryCheckup {

  private static final Path HOST = Path.of("/proc/meminfo");

  private final Checkup checkup;
  private final EngineContext context;
  private final ProcessIdentity process;

  MemoryCheckup(Checkup checkup, EngineContext context, ProcessIdentity process) {
    this.checkup = checkup;
    this.context = context;
    this.process = process;
  }

  /** For a checkpointed process: whether a resume would be refused. */
  void lookAtWayBack() {
    GpuUsage held =
        new Journal(context.state()).find(process).map(JournalEntry::held).orElse(GpuUsage.UNKNOWN);
    if (checkup
        .ask("GPUs", context.timeouts().call(), context.gpus()::read)
        .flatMap(found -> found)
        .isEmpty()) {
      checkup.warning(
          "GPU memory",
          "there is no NVML here, so a resume cannot be protected from running out of GPU memory",
          "make sure that as much is free as it held: " + held);
      return;
    }
    Optional<GpuMemoryRefusal> shortage =
        checkup
            .ask(
                "GPU memory",
                context.timeouts().call(),
                new GpuMemoryCheck(
                        context,
                        List.of(new GpuMemoryCheck.Returning(process, held)),
                        GpuMap.same())
                    ::whyNot)
            .flatMap(found -> found);
    if (shortage.isEmpty()) {
      checkup.ok(
          "GPU memory",
          held.complete()
              ? "there is room for what it held: " + held
              : "there is room for the most that it can have held");
    } else {
      checkup.problem(
          "GPU memory",
          shortage.get().text(),
          shortage.get().isKnown()
              ? "free some, or let resume wait (ResumeOptions.waitForMemory)"
              : "free more, or state what it held with ResumeOptions.needs");
    }
  }

  /** For a process on the GPU: whether the host has room for what a suspend moves there. */
  void lookAtWayOff() {
    GpuUsage held = heldNow();
    long bytes = held.bytes();
    if (bytes == 0) {
      return;
    }
    checkup.ok("GPU memory", "it holds " + held);
    lookAtHost(bytes);
    boolean ours = isPrepared(bytes);
    OptionalLong limit = ControlGroup.memoryRoom(process.pid());
    if (!ours && limit.isPresent() && limit.getAsLong() < bytes) {
      checkup.problem(
          "memory limit",
          "its control group allows %s more, and its GPU memory needs more: the kernel would kill it"
              .formatted(Bytes.text(limit.getAsLong())),
          "raise memory.max of its control group before the suspend");
    }
  }

  /** Tells which way the memory will go, and whether into host memory of this JVM. */
  private boolean isPrepared(long bytes) {
    Optional<String> obstacle =
        context.driverHook() ? DriverHook.obstacle(process) : Optional.of("the settings say so");
    if (obstacle.isPresent()) {
      checkup.ok("copies", "the driver copies by its own thread alone: " + obstacle.get());
      return false;
    }
    Optional<String> memory = context.hostMemory().obstacle(bytes);
    checkup.ok(
        "copies",
        "the driver's copies are divided among threads, into "
            + memory
                .map(why -> "memory that the driver maps, and CRIU dumps it: " + why)
                .orElse("host memory that is made before, and from there into an image"));
    return memory.isEmpty();
  }

  private void lookAtHost(long bytes) {
    try {
      long room = HostMemory.read(HOST).room();
      if (room < bytes) {
        checkup.problem(
            "host memory",
            "%s are free, and its GPU memory needs more: the kernel would kill a process"
                .formatted(Bytes.text(room)),
            "free some memory before the suspend");
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private GpuUsage heldNow() {
    return GpuUsage.of(
        process.pid(),
        checkup
            .ask("GPUs", context.timeouts().call(), context.gpus()::read)
            .flatMap(found -> found));
  }
}
