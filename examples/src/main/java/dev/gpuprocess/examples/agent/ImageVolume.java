package dev.gpuprocess.examples.agent;

import com.google.protobuf.Timestamp;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.examples.agent.protocol.images.DumpRequest;
import dev.gpuprocess.examples.agent.protocol.images.Image;
import dev.gpuprocess.examples.agent.protocol.images.ListImagesRequest;
import dev.gpuprocess.examples.agent.protocol.images.ListImagesResponse;
import dev.gpuprocess.examples.agent.protocol.images.RestoreImageRequest;
import dev.gpuprocess.examples.agent.protocol.images.RestoredJob;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.RetentionPolicy;
import io.grpc.BindableService;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The images of the jobs, with a directory for each job, and our own protocol for them. Each call
 * waits for its verb, and cancels it with the call.
 */
final class ImageVolume implements BindableService {

  static final String NAME = "gpuprocess.agent.v1.ImageService";

  private static final Logger LOG = LoggerFactory.getLogger(ImageVolume.class);

  private final GpuCheckpoints machine;
  private final Jobs jobs;
  private final AgentMetrics metrics;
  private final Path directory;
  private final RetentionPolicy retention;
  private final CallThreads threads;

  ImageVolume(
      GpuCheckpoints machine,
      Jobs jobs,
      AgentMetrics metrics,
      Path directory,
      RetentionPolicy retention,
      CallThreads threads) {
    this.machine = machine;
    this.jobs = jobs;
    this.metrics = metrics;
    this.directory = directory;
    this.retention = retention;
    this.threads = threads;
  }

  @Override
  public ServerServiceDefinition bindService() {
    ServerServiceDefinition.Builder service = ServerServiceDefinition.builder(NAME);
    Rpc.unary(
        service,
        NAME + "/Dump",
        DumpRequest.getDefaultInstance(),
        Image.getDefaultInstance(),
        threads.waiting(),
        this::dump);
    Rpc.unary(
        service,
        NAME + "/Restore",
        RestoreImageRequest.getDefaultInstance(),
        RestoredJob.getDefaultInstance(),
        threads.waiting(),
        this::restore);
    Rpc.unary(
        service,
        NAME + "/List",
        ListImagesRequest.getDefaultInstance(),
        ListImagesResponse.getDefaultInstance(),
        threads.brief(),
        this::list);
    return service.build();
  }

  private ImageStore store(String job) {
    return machine.store(directory.resolve(job));
  }

  private Image dump(DumpRequest request) {
    String job = Jobs.name(request.getJobId());
    DumpOptions options = DumpOptions.builder().label(job).cancellation(Rpc.cancellation()).build();
    RunningProcess process = machine.process(jobs.root(job, request.getPidsList()));
    ProcessImage made =
        metrics.checkpoint(
            () ->
                request.getLeaveRunning()
                    ? store(job).snapshot(process, options)
                    : store(job).dump(process, options));
    metrics.made(made.manifest().bytes());
    return image(job, made.directory(), made.manifest());
  }

  private RestoredJob restore(RestoreImageRequest request) {
    String job = Jobs.name(request.getJobId());
    Cancellation cancellation = Rpc.cancellation();
    RestoreOptions restore =
        RestoreOptions.builder().expectLabel(job).cancellation(cancellation).build();
    ResumeOptions resume = ResumeOptions.builder().cancellation(cancellation).build();
    ImageStore store = store(job);
    RunningProcess running =
        metrics.restore(
            () ->
                request.getName().isEmpty()
                    ? store.withNewest(
                        image -> image.resume(restore, resume),
                        skipped -> LOG.warn("skipped {}", skipped))
                    : store.open(named(store, request.getName())).resume(restore, resume));
    jobs.restored(job, running.identity());
    return RestoredJob.newBuilder().setJobId(job).setPid(running.pid()).build();
  }

  private static StoredImage named(ImageStore store, String name) {
    return store.list().stream()
        .filter(StoredImage::isComplete)
        .filter(image -> image.directory().endsWith(name))
        .findFirst()
        .orElseThrow(
            () ->
                Status.NOT_FOUND
                    .withDescription("this job has no complete image of this name")
                    .asRuntimeException());
  }

  private ListImagesResponse list(ListImagesRequest request) {
    String job = Jobs.name(request.getJobId());
    ListImagesResponse.Builder reply = ListImagesResponse.newBuilder();
    for (StoredImage each : store(job).list()) {
      Manifest manifest = each.manifest();
      if (manifest != null) {
        reply.addImages(image(job, each.directory(), manifest));
      }
    }
    return reply.build();
  }

  private static Image image(String job, Path directory, Manifest manifest) {
    Instant created = manifest.created();
    return Image.newBuilder()
        .setJobId(job)
        .setName(String.valueOf(directory.getFileName()))
        .setPid(manifest.pid())
        .setBytes(manifest.bytes())
        .setCreated(
            Timestamp.newBuilder().setSeconds(created.getEpochSecond()).setNanos(created.getNano()))
        .build();
  }

  /** Removes the images of all jobs that the retention does not keep. Throws nothing. */
  void prune() {
    int removed = 0;
    long left = 0;
    long bytes = 0;
    Map<String, Instant> newest = new TreeMap<>();
    for (Path each : jobDirectories()) {
      try {
        ImageStore store = machine.store(each);
        removed += store.prune(retention).removed().size();
        for (StoredImage image : store.list()) {
          Manifest manifest = image.manifest();
          if (manifest != null) {
            left++;
            bytes += manifest.bytes();
            newest.putIfAbsent(String.valueOf(each.getFileName()), manifest.created());
          }
        }
      } catch (GpuCheckpointException e) {
        LOG.warn("images of {} were not removed: {}", each.getFileName(), e.getMessage());
      } catch (RuntimeException | Error e) {
        // The images of the other jobs are removed, and those of this one the next time.
        LOG.warn("images of {} were not removed", each.getFileName(), e);
      }
    }
    metrics.pruned(removed, left, bytes);
    metrics.newest(newest);
  }

  private List<Path> jobDirectories() {
    if (!Files.isDirectory(directory)) {
      return List.of();
    }
    try (Stream<Path> entries = Files.list(directory)) {
      return entries.filter(Files::isDirectory).sorted().toList();
    } catch (IOException | UncheckedIOException e) {
      LOG.warn("the images cannot be listed: {}", e.getMessage());
      return List.of();
    }
  }
}
