package dev.gpuprocess;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.proc.ControlGroup;
import dev.gpuprocess.proc.HostMemory;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;

/** Looks at what a process holds on the GPUs, and whether it fits where it would go. */
final class MemoryCheckup {

  private static final Path HOST = Path.of("/proc/meminfo");

  private final Checkup checkup;
  private final GpuCheckpoints checkpoints;
  private final ProcessIdentity process;

  MemoryCheckup(Checkup checkup, GpuCheckpoints checkpoints, ProcessIdentity process) {
    this.checkup = checkup;
    this.checkpoints = checkpoints;
    this.process = process;
  }

  /** Of a checkpointed process: whether a resume would be refused. */
  void lookAtWayBack() {
    Map<GpuUuid, Long> held =
        checkpoints.journal().find(process).map(JournalEntry::held).orElse(Map.of());
    if (held.isEmpty()) {
      checkup.warning(
          "GPU memory",
          "what it held is not known, so a resume cannot be kept from running out",
          "make sure that as much is free as it had");
      return;
    }
    Optional<String> shortage =
        checkup
            .ask(
                "GPUs",
                checkpoints.timeouts().call(),
                () -> GpuRoom.whyNot(checkpoints.gpus(), held, process.pid()))
            .flatMap(found -> found);
    if (shortage.isPresent()) {
      checkup.problem("GPU memory", shortage.get(), "free it, or let resume wait for it");
    } else {
      checkup.ok("GPU memory", "there is room for what it held: " + text(held));
    }
  }

  /** Of a process on the GPU: whether the host has room for what a suspend moves there. */
  void lookAtWayOff() {
    Map<GpuUuid, Long> held = heldNow();
    long bytes = held.values().stream().mapToLong(Long::longValue).sum();
    if (bytes == 0) {
      return;
    }
    checkup.ok("GPU memory", "it holds " + text(held));
    long room = HostMemory.read(HOST).room();
    OptionalLong limit = ControlGroup.memoryRoom(process.pid());
    if (room < bytes) {
      checkup.problem(
          "host memory",
          "%s are free, and its GPU memory would fill more: the kernel would end something"
              .formatted(Bytes.text(room)),
          "free some before the suspend");
    }
    if (limit.isPresent() && limit.getAsLong() < bytes) {
      checkup.problem(
          "memory limit",
          "its control group allows %s more, and its GPU memory would fill more: the kernel would end it"
              .formatted(Bytes.text(limit.getAsLong())),
          "raise memory.max of its control group before the suspend");
    }
  }

  private Map<GpuUuid, Long> heldNow() {
    List<Gpu> gpus =
        checkup
            .ask("GPUs", checkpoints.timeouts().call(), checkpoints.gpus()::gpus)
            .flatMap(found -> found)
            .orElse(List.of());
    Map<GpuUuid, Long> held = new TreeMap<>();
    for (Gpu gpu : gpus) {
      gpu.users().stream()
          .filter(user -> user.pid() == process.pid())
          .forEach(user -> held.merge(gpu.uuid(), user.bytes(), Long::sum));
    }
    return held;
  }

  private static String text(Map<GpuUuid, Long> held) {
    StringBuilder text = new StringBuilder();
    held.forEach(
        (gpu, bytes) ->
            text.append(text.isEmpty() ? "" : ", ")
                .append(Bytes.text(bytes))
                .append(" on ")
                .append(gpu));
    return text.toString();
  }
}
