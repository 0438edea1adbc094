package dev.gpuprocess.examples.agent;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.error.OperationInProgressException;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MultiGauge;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.binder.jvm.JvmMemoryMetrics;
import io.micrometer.core.instrument.binder.system.ProcessorMetrics;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;

/**
 * The metrics of an agent. The names are those that KEP-5823 proposes for the kubelet, with {@code
 * gpuprocess} for {@code kubelet}. May be used from any thread.
 */
final class AgentMetrics {

  private static final String PREFIX = "gpuprocess.pod.";

  /** From a small process to hundreds of GiB. */
  private static final Duration[] BUCKETS =
      List.of(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000).stream()
          .map(Duration::ofMillis)
          .toArray(Duration[]::new);

  private static final double MEBIBYTE = 1 << 20;
  private static final double[] SIZES = {
    64 * MEBIBYTE,
    256 * MEBIBYTE,
    1024 * MEBIBYTE,
    4096 * MEBIBYTE,
    16_384 * MEBIBYTE,
    65_536 * MEBIBYTE,
    262_144 * MEBIBYTE
  };

  private final PrometheusMeterRegistry registry =
      new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
  private final GpuCheckpoints machine;
  private final Verb checkpoint = new Verb("checkpoint");
  private final Verb restore = new Verb("restore");
  private final DistributionSummary size;
  private final Counter removed;
  private final AtomicLong images = new AtomicLong();
  private final AtomicLong imageBytes = new AtomicLong();
  private final MultiGauge newest;
  private final MultiGauge waiting;
  private final MultiGauge used;
  private final MultiGauge total;

  private volatile Supplier<Map<String, Long>> groups = Map::of;

  /** The two counters and the time of a verb. */
  private final class Verb {

    private final Counter successes;
    private final Counter failures;
    private final Timer duration;

    Verb(String name) {
      successes = counter(name, "success");
      failures = counter(name, "failure");
      duration =
          Timer.builder(PREFIX + name + ".duration")
              .description("Time of each %s that succeeded.".formatted(name))
              .serviceLevelObjectives(BUCKETS)
              .register(registry);
    }

    private Counter counter(String name, String result) {
      return Counter.builder(PREFIX + name + ".operations")
          .description("Number of %s operations.".formatted(name))
          .tag("result", result)
          .register(registry);
    }

    <T> T timed(Supplier<T> verb) {
      Timer.Sample sample = Timer.start(registry);
      try {
        T result = verb.get();
        sample.stop(duration);
        successes.increment();
        return result;
      } catch (OperationInProgressException e) {
        throw e; // refused, and not begun
      } catch (RuntimeException | Error e) {
        failures.increment();
        throw e;
      }
    }

    void done(Duration took) {
      duration.record(took);
      successes.increment();
    }
  }

  /**
   * Creates the meters.
   *
   * @param volume the directory of images
   */
  AgentMetrics(GpuCheckpoints machine, Path volume) {
    this.machine = machine;
    new JvmMemoryMetrics().bindTo(registry);
    new ProcessorMetrics().bindTo(registry);
    String version = AgentMetrics.class.getPackage().getImplementationVersion();
    Gauge.builder("gpuprocess.build.info", () -> 1)
        .description("The version of the agent.")
        .tag("version", version == null ? "unknown" : version)
        .register(registry);
    gauge("gpuprocess.images.free.bytes", "Free bytes of the volume.", volume, AgentMetrics::free);
    newest =
        MultiGauge.builder("gpuprocess.images.newest.seconds")
            .description("When the newest image of the job was made, in seconds since 1970.")
            .register(registry);
    waiting =
        MultiGauge.builder("gpuprocess.slot.waiting.processes")
            .description("Processes that wait for a turn of the group.")
            .register(registry);
    size =
        DistributionSummary.builder(PREFIX + "checkpoint.size")
            .description("Size of the images that were made.")
            .baseUnit("bytes")
            .serviceLevelObjectives(SIZES)
            .register(registry);
    removed =
        Counter.builder("gpuprocess.images.removed")
            .description("Images that the retention removed.")
            .register(registry);
    gauge("gpuprocess.images", "Complete images on the volume.", images, AtomicLong::doubleValue);
    gauge("gpuprocess.images.bytes", "Their size.", imageBytes, AtomicLong::doubleValue);
    gauge(
        "gpuprocess.suspended.processes",
        "Processes that are suspended.",
        machine,
        each -> each.suspended().size());
    used =
        MultiGauge.builder("gpuprocess.gpu.memory.used.bytes")
            .description("Memory of the GPU that is in use.")
            .register(registry);
    total =
        MultiGauge.builder("gpuprocess.gpu.memory.total.bytes")
            .description("Memory of the GPU.")
            .register(registry);
  }

  private <T> void gauge(String name, String text, T of, ToDoubleFunction<T> value) {
    Gauge.builder(name, of, value).description(text).register(registry);
  }

  /** Runs a suspend or a dump, and counts it. */
  <T> T checkpoint(Supplier<T> verb) {
    return checkpoint.timed(verb);
  }

  /** Runs a resume or a restore, and counts it. */
  <T> T restore(Supplier<T> verb) {
    return restore.timed(verb);
  }

  /** Counts a suspend that a slot did. */
  void suspended(Duration took) {
    checkpoint.done(took);
  }

  /** Counts a resume that a slot did. */
  void resumed(Duration took) {
    restore.done(took);
  }

  /** Counts an image that was made. */
  void made(long bytes) {
    size.record((double) bytes);
  }

  /** Counts what a prune did. */
  void pruned(int gone, long left, long leftBytes) {
    removed.increment(gone);
    images.set(left);
    imageBytes.set(leftBytes);
  }

  private static double free(Path volume) {
    try {
      return Files.getFileStore(volume).getUsableSpace();
    } catch (IOException e) {
      return Double.NaN;
    }
  }

  /** Sets when the newest image of each job was made. */
  void newest(Map<String, Instant> byJob) {
    newest.register(
        byJob.entrySet().stream()
            .<MultiGauge.Row<?>>map(
                each ->
                    MultiGauge.Row.of(
                        Tags.of("job", each.getKey()), (double) each.getValue().getEpochSecond()))
            .toList(),
        true);
  }

  /** Sets where the numbers of waiting processes come from, by group. */
  void waitingFrom(Supplier<Map<String, Long>> groups) {
    this.groups = groups;
  }

  /** Returns the text for Prometheus. */
  String scrape() {
    waiting.register(
        groups.get().entrySet().stream()
            .<MultiGauge.Row<?>>map(
                each ->
                    MultiGauge.Row.of(
                        Tags.of("group", each.getKey()), (double) each.getValue().longValue()))
            .toList(),
        true);
    List<Gpu> gpus = machine.gpus().gpus().orElse(List.of());
    used.register(rows(gpus, gpu -> gpu.totalBytes() - gpu.freeBytes()), true);
    total.register(rows(gpus, Gpu::totalBytes), true);
    return registry.scrape();
  }

  private static List<MultiGauge.Row<?>> rows(List<Gpu> gpus, ToLongFunction<Gpu> value) {
    return gpus.stream()
        .<MultiGauge.Row<?>>map(
            gpu ->
                MultiGauge.Row.of(
                    Tags.of("gpu", gpu.uuid().text()), (double) value.applyAsLong(gpu)))
        .toList();
  }
}
