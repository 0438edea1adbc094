package dev.gpuprocess.examples.cookbook;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.SnapshotListener;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.report.SkippedSnapshot;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

// [start:agent]
/** Keeps the newest snapshots of the jobs of a node, and restores jobs from them. */
public final class NodeAgent implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(NodeAgent.class);
  private static final ResumeOptions PATIENT =
      ResumeOptions.builder().waitForMemory(Duration.ofMinutes(1)).build();

  private final GpuCheckpoints gpus;
  private final Path images;
  private final Duration interval;
  private final RetentionPolicy retention;
  private final Map<String, RepeatedSnapshots> jobs = new ConcurrentHashMap<>();

  /** An agent that keeps each job's snapshots in a directory of its own below {@code images}. */
  public NodeAgent(GpuCheckpoints gpus, Path images, Duration interval, RetentionPolicy retention) {
    this.gpus = gpus;
    this.images = images;
    this.interval = interval;
    this.retention = retention;
  }

  /** Repairs what a dead agent left. Call it before anything else. */
  public void recover() {
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
  }

  /** Takes snapshots of a job from now on. The name must be a valid directory name. */
  public RepeatedSnapshots watch(String job, long pid) {
    SnapshotPlan plan =
        SnapshotPlan.into(store(job))
            .every(interval)
            .retention(retention)
            .options(DumpOptions.builder().label(job).build())
            .listener(new Report(job))
            .build();
    RepeatedSnapshots snapshots = gpus.process(pid).repeatSnapshots(plan);
    RepeatedSnapshots before = jobs.put(job, snapshots);
    if (before != null) {
      before.close();
    }
    return snapshots;
  }

  private ImageStore store(String job) {
    return gpus.store(images.resolve(job));
  }

  /** Logs for an operator. */
  private record Report(String job) implements SnapshotListener {

    @Override
    public void made(ProcessImage image) {
      LOG.info("{}: {}, {}", job, image, image.snapshotTimes());
    }

    @Override
    public void failed(Throwable why) {
      LOG.warn("{}: no snapshot this time: {}", job, why.getMessage());
    }

    @Override
    public void skipped(SkippedSnapshot skipped) {
      LOG.info("{}: {}", job, skipped.message());
    }

    @Override
    public void ended(boolean closed) {
      LOG.info("{}: no more snapshots{}", job, closed ? "" : ", because the job has ended");
    }
  }

  /** Restores a job that has ended, from its newest image that verifies. */
  public Optional<RunningProcess> restore(String job) {
    try {
      RestoreOptions options = RestoreOptions.builder().expectLabel(job).build();
      RunningProcess back =
          store(job)
              .restoreNewest(options, skipped -> LOG.warn("{}: {}", job, skipped))
              .resume(PATIENT);
      watch(job, back.pid());
      return Optional.of(back);
    } catch (ImageException e) {
      if (e.reason() != ImageException.Reason.MISSING) {
        throw e;
      }
      LOG.warn("{} cannot be restored: {}", job, e.getMessage());
      return Optional.empty();
    }
  }

  /** Waits for the snapshots that are being made. */
  @Override
  public void close() {
    jobs.values().forEach(RepeatedSnapshots::close);
  }
}
// [end:agent]
