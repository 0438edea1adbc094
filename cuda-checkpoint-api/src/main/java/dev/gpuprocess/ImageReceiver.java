package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageMismatchException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.DumpedImage;
import dev.gpuprocess.internal.dump.Reception;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.options.PageEndpoint;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Where a process or job arrives that is {@linkplain CheckpointedProcess#migrate migrated} from
 * another host: it becomes an image here. One receiver takes one; start one for each, on any free
 * port. CRIU's page server listens to this host alone: strangers who connect are turned away, and
 * it goes on waiting. May be used by several threads.
 *
 * <p>A restore runs what came with our rights. Without TLS or an {@linkplain
 * GpuCheckpoints.Builder#imageKey image key} everybody who reaches the port can send something.
 */
public final class ImageReceiver implements AutoCloseable {

  private final EngineContext context;
  private final Path directory;
  private final Reception reception;
  private @Nullable ImageDirectory received;

  ImageReceiver(EngineContext context, Path directory, Reception reception) {
    this.context = context;
    this.directory = directory;
    this.reception = reception;
  }

  /**
   * Where it listens, for the sender.
   *
   * @return the address that it was given, with the port; its TLS settings are those of this host
   */
  public PageEndpoint endpoint() {
    return reception.here();
  }

  /**
   * Waits until a process has arrived and is gone from its host.
   *
   * @return its image, complete and durable
   * @throws ImageMismatchException when it is a job with several CUDA processes; its image is there
   *     and is opened by {@link JobImage#open}
   * @see #awaitJob
   */
  public ProcessImage await() {
    ImageDirectory image = received();
    if (image.manifest().isOfJob()) {
      throw new ImageMismatchException(
          "what arrived at %s is a job with several CUDA processes: open it with JobImage.open"
              .formatted(image.path()),
          Failure.of("receive", image.manifest().pid()));
    }
    return ProcessImage.of(context, new DumpedImage(image, List.of(), null));
  }

  /**
   * Waits until a job has arrived and is gone from its host. A process is a job of one member.
   *
   * @return its image, complete and durable
   * @throws dev.gpuprocess.error.MigrationFailedException when nobody came in time, or what came
   *     was not whole, or the sender kept it; nothing is left here
   * @throws dev.gpuprocess.error.ImageKeptException when the sender went away when it was about to
   *     let the process die: the image is complete, and must be restored only if the process is
   *     gone there
   * @throws dev.gpuprocess.error.ImageDirectoryException when the directory cannot be used
   * @throws dev.gpuprocess.error.DiskFullException when the file system has too little room, which
   *     is checked before the process is touched
   * @throws dev.gpuprocess.error.ImageException when what came is no image
   * @throws dev.gpuprocess.error.CriuException when CRIU could not receive the memory
   */
  public JobImage awaitJob() {
    return JobImage.of(context, new DumpedImage(received(), List.of(), null));
  }

  private synchronized ImageDirectory received() {
    ImageDirectory image = received;
    if (image == null) {
      image = reception.image(directory);
      received = image;
    }
    return image;
  }

  /** Ends it, also while another thread waits: an image that is complete stays. */
  @Override
  public void close() {
    reception.close();
  }
}
