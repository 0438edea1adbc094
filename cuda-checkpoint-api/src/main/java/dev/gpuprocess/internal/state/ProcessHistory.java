package dev.gpuprocess.internal.state;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The part of a journal entry that is kept from one step to the next. Immutable.
 *
 * @param since when a controller took the process away from running; null while it is running
 * @param poisoned whether a restore ran out of GPU memory, after which the driver refuses every
 *     later restore (NVIDIA/cuda-checkpoint issue 44)
 * @param fallback an image from which the process can be restored without a loss; null for none
 * @param origin the process that was dumped into the image from which this one was restored; null
 *     for none
 * @param label the label of that image, or of a later suspend; null for none
 * @param gpus the GPUs of the machine of that image, by kind, until the process is on a GPU again;
 *     empty for those of this machine
 */
public record ProcessHistory(
    @Nullable Instant since,
    boolean poisoned,
    @Nullable Path fallback,
    @Nullable ProcessIdentity origin,
    @Nullable String label,
    Map<GpuUuid, String> gpus) {

  /** The history of a process of which nothing is known. */
  public static final ProcessHistory NONE =
      new ProcessHistory(null, false, null, null, null, Map.of());

  private static final String SINCE = "since";
  private static final String POISONED = "poisoned";
  private static final String FALLBACK = "fallback";
  private static final String ORIGIN_PID = "origin.pid";
  private static final String ORIGIN_START = "origin.start";
  private static final String LABEL = "label";
  private static final String GPUS = "gpus";

  public ProcessHistory {
    gpus = Map.copyOf(gpus);
  }

  /**
   * Returns the history of a process that was restored from an image and has not run since.
   *
   * @param machine the machine of the image; null if it is not known
   */
  public static ProcessHistory restored(
      Path image, ProcessIdentity origin, @Nullable String label, @Nullable ImageMachine machine) {
    Map<GpuUuid, String> gpus = new TreeMap<>();
    if (machine != null) {
      machine.gpus().forEach((gpu, kind) -> gpus.put(GpuUuid.of(gpu), kind));
    }
    return new ProcessHistory(null, false, image, origin, label, gpus);
  }

  /** Returns the history of a process away from running: since now, unless that is known. */
  public ProcessHistory away() {
    return since == null
        ? new ProcessHistory(now(), poisoned, fallback, origin, label, gpus)
        : this;
  }

  /** Returns the history after a restore that ran out of GPU memory. */
  public ProcessHistory poison() {
    return new ProcessHistory(since, true, fallback, origin, label, gpus);
  }

  /** Returns the history with an image to fall back to. */
  public ProcessHistory fallingBackTo(Path image) {
    return new ProcessHistory(since, poisoned, image, origin, label, gpus);
  }

  /** Returns the history with a label that a caller gave it. */
  public ProcessHistory labelled(String text) {
    return new ProcessHistory(since, poisoned, fallback, origin, text, gpus);
  }

  /** Returns the history after a restore to the GPU that succeeded. */
  public ProcessHistory onGpu() {
    return new ProcessHistory(since, false, null, origin, label, Map.of());
  }

  /**
   * Returns the history of a running process. The label of a suspend ends with the suspend.
   *
   * @param imageLabel the label of the image that it was restored from; null for none
   */
  public ProcessHistory running(@Nullable String imageLabel) {
    return new ProcessHistory(null, false, null, origin, imageLabel, Map.of());
  }

  private static Instant now() {
    return Instant.ofEpochMilli(System.currentTimeMillis());
  }

  void write(Properties properties) {
    if (since != null) {
      properties.setProperty(SINCE, Long.toString(since.toEpochMilli()));
    }
    if (poisoned) {
      properties.setProperty(POISONED, "true");
    }
    if (fallback != null) {
      properties.setProperty(FALLBACK, NativePath.text(fallback));
    }
    if (origin != null) {
      properties.setProperty(ORIGIN_PID, Integer.toString(origin.pid()));
      properties.setProperty(ORIGIN_START, Long.toString(origin.startTicks()));
    }
    if (label != null) {
      properties.setProperty(LABEL, label);
    }
    if (!gpus.isEmpty()) {
      properties.setProperty(
          GPUS,
          new TreeMap<>(gpus)
              .entrySet().stream()
                  .map(each -> each.getKey() + " " + each.getValue())
                  .collect(Collectors.joining("\n")));
    }
  }

  /** Reads the output of {@link #write}; throws IllegalArgumentException for anything else. */
  static ProcessHistory read(Properties properties) {
    String since = properties.getProperty(SINCE);
    String fallback = properties.getProperty(FALLBACK);
    String origin = properties.getProperty(ORIGIN_PID);
    return new ProcessHistory(
        since == null ? null : Instant.ofEpochMilli(Long.parseLong(since)),
        Boolean.parseBoolean(properties.getProperty(POISONED)),
        fallback == null ? null : NativePath.of(fallback),
        origin == null
            ? null
            : new ProcessIdentity(
                Integer.parseInt(origin), Long.parseLong(properties.getProperty(ORIGIN_START, ""))),
        properties.getProperty(LABEL),
        gpus(properties.getProperty(GPUS, "")));
  }

  private static Map<GpuUuid, String> gpus(String lines) {
    return lines
        .lines()
        .map(line -> line.split(" ", 2))
        .collect(Collectors.toMap(pair -> GpuUuid.of(pair[0]), pair -> pair[1]));
  }
}
