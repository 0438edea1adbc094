package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.PoisonedProcess;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.slot.SlotProcess;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The fields that several commands print. */
final class Words {

  private Words() {}

  /** Returns the state of a process in lower case, or {@code poisoned}. */
  static String state(GpuProcess process) {
    return process instanceof PoisonedProcess ? "poisoned" : state(process.state());
  }

  static String state(@Nullable ProcessState state) {
    return state == null ? "unknown" : state.name().toLowerCase(Locale.ROOT);
  }

  static String place(SlotProcess.Place place) {
    return switch (place) {
      case GPU -> "on GPU";
      case HOST_MEMORY -> "in host memory";
      case DISK -> "on disk";
    };
  }

  static Map<String, Long> gpuBytes(Map<GpuUuid, Long> bytes) {
    return bytes.entrySet().stream()
        .collect(
            Collectors.toMap(
                each -> each.getKey().text(), Map.Entry::getValue, Long::sum, TreeMap::new));
  }

  /** Returns the steps of a verb as records. */
  static List<Map<String, @Nullable Object>> steps(List<Step> steps) {
    return steps.stream().map(Words::step).toList();
  }

  private static Map<String, @Nullable Object> step(Step step) {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("name", step.name());
    value.put("pid", step.pid());
    value.put("seconds", step.duration().toNanos() / 1e9);
    value.put("bytes", step.bytes());
    return value;
  }

  static String seconds(double seconds) {
    return String.format(Locale.ROOT, "%.2f s", seconds);
  }
}
