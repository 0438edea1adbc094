package dev.gpuprocess.examples.cookbook;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

// [start:agent]
/** Keeps the newest snapshots of the jobs of a node, and brings jobs back from them. */
public final class NodeAgent implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(NodeAgent.class);
  private static final DateTimeFormatter NAME =
      DateTimeFormatter.ofPattern("uuuuMMdd-HHmmss-SSS", Locale.ROOT).withZone(ZoneOffset.UTC);
  private static final ResumeOptions PATIENT =
      ResumeOptions.builder().waitForMemory(Duration.ofMinutes(1)).build();

  private final GpuCheckpoints gpus;
  private final Path images;
  private final int keep;
  private final Map<String, Long> jobs = new ConcurrentHashMap<>();
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();

  /**
   * An agent that keeps so many snapshots of each job, each job's in a directory of its own below
   * {@code images}.
   */
  public NodeAgent(GpuCheckpoints gpus, Path images, int keep) {
    this.gpus = gpus;
    this.images = images;
    this.keep = keep;
  }

  /** Mends what an agent left that died, and then makes snapshots from time to time. */
  public void start(Duration interval) {
    for (Recovered found : gpus.recover()) {
      LOG.info("process {} is {}", found.process().pid(), found.outcome());
      if (found.suspended() != null) {
        try {
          found.suspended().resume(PATIENT);
        } catch (GpuCheckpointException e) {
          LOG.warn("still suspended, until the next recover: {}", e.getMessage());
        }
      }
    }
    long nanos = interval.toNanos();
    ScheduledFuture<?> unused =
        timer.scheduleWithFixedDelay(this::snapshotAll, nanos, nanos, TimeUnit.NANOSECONDS);
  }

  /** Takes snapshots of a job from now on. The name must do for a directory. */
  public void watch(String job, long pid) {
    jobs.put(job, pid);
  }

  /** Each job is off its GPU while it is dumped, and goes on while its older images are removed. */
  public void snapshotAll() {
    jobs.forEach(
        (job, pid) -> {
          try {
            snapshot(job, pid);
          } catch (ProcessUnfitException e) {
            LOG.warn("no more snapshots of {}: {}", job, e.getMessage());
            jobs.remove(job, pid);
          } catch (GpuCheckpointException e) {
            LOG.warn("no snapshot of {} this time: {}", job, e.getMessage());
          }
        });
  }

  private void snapshot(String job, long pid) {
    Path directory = images.resolve(job).resolve(NAME.format(Instant.now()));
    DumpOptions options = DumpOptions.builder().label(job).build();
    ProcessImage image = gpus.process(pid).snapshot(directory, options);
    LOG.info("removed {}", image.removeOlder(keep));
  }

  /** Brings a job back that has ended, from its newest image that is whole. */
  public Optional<RunningProcess> restore(String job) throws IOException {
    for (Path image : newestFirst(images.resolve(job))) {
      try {
        RestoreOptions options = RestoreOptions.builder().expectLabel(job).build();
        RunningProcess back = gpus.open(image).restore(options).resume(PATIENT);
        jobs.put(job, (long) back.pid());
        return Optional.of(back);
      } catch (ImageException e) {
        LOG.warn("trying an older image: {}", e.getMessage());
      }
    }
    return Optional.empty();
  }

  private static List<Path> newestFirst(Path directory) throws IOException {
    try (Stream<Path> found = Files.list(directory)) {
      return found
          .filter(image -> Files.exists(image.resolve("manifest.json")))
          .sorted(Comparator.reverseOrder())
          .toList();
    }
  }

  /** Waits for the snapshot that is being made. */
  @Override
  public void close() {
    timer.shutdown();
    try {
      if (!timer.awaitTermination(10, TimeUnit.MINUTES)) {
        LOG.warn("a snapshot does not end; recover mends what it leaves");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
// [end:agent]
