package dev.gpuprocess.examples.cookbook;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

// [start:mover]
/** Moves jobs between hosts, as images in a directory that all of them can read. */
public final class JobMover {

  private static final Logger LOG = LoggerFactory.getLogger(JobMover.class);

  private final GpuCheckpoints gpus;
  private final ImageStore own;
  private final Path shared;

  /** A mover that keeps the images of this host in {@code own}. */
  public JobMover(GpuCheckpoints gpus, Path own, Path shared) {
    this.gpus = gpus;
    this.own = gpus.store(own);
    this.shared = shared;
  }

  /** Takes a job off this host. The name must be a valid directory name. */
  public void send(String job, long pid) {
    // If the dump fails, the job keeps running here.
    DumpOptions options = DumpOptions.builder().label(job).build();
    ProcessImage image = gpus.process(pid).dump(own.directory().resolve(job), options);
    // If the copy fails, call copyTo again: the copy continues. The job is safe in its image.
    ProcessImage copy = image.copyTo(shared.resolve(job));
    LOG.info("{} can be taken from {}", job, copy.directory());
  }

  /** Runs a job here that another host has sent; empty if it cannot run on this host. */
  public Optional<RunningProcess> take(String job) {
    // If the fetch fails, call this method again: the fetch continues.
    StoredImage fetched = own.fetch(shared.resolve(job));
    ProcessImage image = own.open(fetched);
    List<MachineDifference> obstacles =
        image.differences().stream().filter(MachineDifference::prevents).toList();
    if (!obstacles.isEmpty()) {
      LOG.warn("{} cannot run here: {}", job, obstacles);
      return Optional.empty();
    }
    RestoreOptions options = RestoreOptions.builder().expectLabel(job).build();
    return Optional.of(image.restore(options).resume());
  }
}
// [end:mover]
