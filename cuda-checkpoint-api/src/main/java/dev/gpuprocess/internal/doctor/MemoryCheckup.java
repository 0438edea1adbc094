package dev.gpuprocess.internal.doctor;

import static java.util.stream.Collectors.joining;

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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Checks the GPU memory of processes, and whether a suspend or resume has memory for it. */
final class MemoryCheckup {

  private final Checkup checkup;
  private final EngineContext context;
  private final ProcessIdentity root;

  MemoryCheckup(Checkup checkup, EngineContext context, ProcessIdentity root) {
    this.checkup = checkup;
    this.context = context;
    this.root = root;
  }

  /** Checks whether the resume of checkpointed processes would be refused. */
  void checkResumeCapacity(List<ProcessIdentity> processes) {
    Map<ProcessIdentity, GpuUsage> usage = new LinkedHashMap<>();
    processes.forEach(each -> usage.put(each, heldBefore(each)));
    String held = usage.values().stream().map(GpuUsage::toString).collect(joining(", and "));
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
                        usage.entrySet().stream()
                            .map(
                                each ->
                                    new GpuMemoryCheck.Returning(
                                        each.getKey(), each.getValue(), Map.of()))
                            .toList(),
                        GpuMap.same())
                    ::whyNot)
            .flatMap(found -> found);
    if (shortage.isEmpty()) {
      checkup.ok(
          "GPU memory",
          usage.values().stream().allMatch(GpuUsage::complete)
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

  /** Checks whether the host has memory for the suspend of processes on their GPUs. */
  void checkSuspendCapacity(List<ProcessIdentity> processes) {
    Map<ProcessIdentity, Long> own = new LinkedHashMap<>();
    processes.forEach(each -> checkSuspendCapacity(each, own));
    if (!own.isEmpty()) {
      HostMemoryCheck.obstacle(own)
          .ifPresent(
              why ->
                  checkup.problem(
                      "memory limit",
                      why + ": a suspend is refused, as the kernel could kill the process",
                      "free memory, or raise the memory limit of its control group"));
    }
  }

  /** Adds a process for which the driver maps memory of its own. */
  private void checkSuspendCapacity(ProcessIdentity process, Map<ProcessIdentity, Long> own) {
    GpuUsage held = heldNow(process);
    long bytes = held.bytes();
    if (bytes == 0) {
      return;
    }
    checkup.ok("GPU memory", name(process) + "it holds " + held);
    boolean isPrepared = isPrepared(process, bytes);
    AddressSpaceCheck.obstacle(process.pid(), bytes, isPrepared)
        .ifPresent(
            why ->
                checkup.problem(
                    "memory limit",
                    name(process) + why + ": a suspend is refused",
                    AddressSpaceCheck.cure(process.pid())));
    if (!isPrepared) {
      own.put(process, bytes);
    }
  }

  /** Returns how a finding begins: those of the root need no name. */
  private String name(ProcessIdentity process) {
    return process.equals(root) ? "" : "process %s: ".formatted(process.pid());
  }

  /** Reports how the memory will be copied; returns whether into host memory of this JVM. */
  private boolean isPrepared(ProcessIdentity process, long bytes) {
    Optional<String> obstacle =
        context.driverHook()
            ? DriverHook.obstacle(process)
            : Optional.of("the settings disable the driver hook");
    if (obstacle.isPresent()) {
      checkup.ok("copies", name(process) + "the driver copies with one thread: " + obstacle.get());
      return false;
    }
    Optional<String> memory = context.hostMemory().obstacle(bytes);
    checkup.ok(
        "copies",
        name(process)
            + "the driver's copies are divided among threads, into "
            + memory
                .map(why -> "memory that the driver maps and CRIU dumps: " + why)
                .orElse("host memory that is prepared, and from there into an image"));
    return memory.isEmpty();
  }

  private GpuUsage heldBefore(ProcessIdentity process) {
    return new Journal(context.state())
        .find(process)
        .map(JournalEntry::held)
        .orElse(GpuUsage.UNKNOWN);
  }

  private GpuUsage heldNow(ProcessIdentity process) {
    return GpuUsage.of(
        process.pid(),
        checkup
            .query("GPUs", context.timeouts().call(), context.gpus()::read)
            .flatMap(found -> found));
  }
}
