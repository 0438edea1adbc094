package dev.gpuprocess;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.DumpedImage;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.ImageNaming;
import dev.gpuprocess.internal.image.ImagePlace;
import dev.gpuprocess.internal.image.ImageTarget;
import dev.gpuprocess.internal.image.Retention;
import dev.gpuprocess.internal.image.StoreDirectory;
import dev.gpuprocess.internal.image.VerificationCache;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.RetentionPolicy;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A directory with the images of a process: what {@link RunningProcess#repeatSnapshots} and {@link
 * GpuCheckpoints#launch( dev.gpuprocess.options.LaunchOptions, SnapshotPlan)} make, and images that
 * were put there. Everything else in the directory is listed and not touched: half images,
 * directories and files of others, and links, which are not followed.
 *
 * <p>The order of images is that of the times in their manifests. What repeated snapshots make is
 * of a time after all that is there, and named by it, also when the clock was set back. Where the
 * clock was ahead once, move the images of that time away: until then all that follow are a
 * millisecond apart.
 *
 * <p>Several stores, of several JVMs, can be at one directory. May be used from any thread. Methods
 * take as long as the disk does.
 */
public final class ImageStore {

  private static final int SKIPPED_IN_MESSAGE = 3;

  private final EngineContext context;
  private final StoreDirectory images;
  private final InstantSource clock;
  private final VerificationCache verification = new VerificationCache();

  ImageStore(EngineContext context, Path directory, InstantSource clock) {
    this.context = context;
    this.images =
        new StoreDirectory(
            requireNonNull(directory, "directory").toAbsolutePath(), context.imageKey());
    this.clock = clock;
  }

  /**
   * The store at a directory, with the drivers and settings of this machine.
   *
   * @param directory need not exist yet; a link is followed
   * @return the store; nothing was read or made
   * @see GpuCheckpoints#store
   */
  public static ImageStore at(Path directory) {
    return GpuCheckpoints.standard().store(directory);
  }

  /**
   * Where it is.
   *
   * @return its directory
   */
  public Path directory() {
    return images.path();
  }

  /**
   * Lists everything in the directory. Only manifests are read.
   *
   * @return the images, newest first, and then what is not a complete image, by name; empty when
   *     the directory does not exist
   * @throws ImageException when it cannot be read
   */
  public List<StoredImage> list() {
    return images.read().all();
  }

  /**
   * Opens an image of the list.
   *
   * @param image of this store
   * @return the image, its files not yet verified
   * @throws ImageException with reason MISSING when it is not a complete image, or was removed
   *     since; otherwise as {@link ProcessImage#open}
   */
  public ProcessImage open(StoredImage image) {
    requireComplete(image);
    return ProcessImage.open(context, image.directory());
  }

  /**
   * Reads what an image of the list holds.
   *
   * @param image of this store
   * @return the dumped process tree
   * @throws ImageException as {@link #open} and {@link ProcessImage#describe}
   */
  public DumpedTree describe(StoredImage image) {
    return open(image).describe();
  }

  /**
   * Reads every file of an image of the list and compares it with the manifest.
   *
   * @param image of this store
   * @throws ImageException with reason MISSING when it is not a complete image, or was removed
   *     since; otherwise as {@link ProcessImage#verify}
   */
  public void verify(StoredImage image) {
    requireComplete(image);
    raise(verification.faultNow(ImageDirectory.open(image.directory(), context.imageKey())));
  }

  private static void requireComplete(StoredImage image) {
    if (!image.isComplete()) {
      throw new ImageException(
          ImageException.Reason.MISSING, image.toString(), Failure.of("open", 0));
    }
  }

  private static void raise(Optional<ImageException> fault) {
    if (fault.isPresent()) {
      throw fault.get();
    }
  }

  /**
   * Copies an image from another directory into this store, under the name that it has there. That
   * directory is one that this host can read: of a shared file system, or where the site's own
   * means put the files of another host. Every file is compared with the manifest while it is
   * copied. The image gets its name here in one atomic step, when it is complete and on disk.
   *
   * <p>With an {@linkplain GpuCheckpoints.Builder#imageKey image key} it does not matter who owns
   * the files: the manifest must be made with the key, and all content must match it. Without a key
   * the files must belong to root or to the user of this JVM, and no other user may be able to
   * write them.
   *
   * <p>An image that is here already, as after a call that was not known to have succeeded, is
   * verified and returned. A call that failed or whose JVM ended is continued by the next one, as
   * {@link ProcessImage#copyTo(Path, Cancellation) copyTo} says. The step {@code fetch} is reported
   * to the listener, with the bytes that were copied. An interrupt does not stop this; the thread
   * stays interrupted.
   *
   * @param image the directory of an image
   * @param cancellation ends it early, from another thread
   * @return the image in this store
   * @throws ImageException with reason MISSING when the directory has no image; with reason FORMAT
   *     when a newer version of this library wrote it; with reason CORRUPT when a file is missing,
   *     truncated or altered, or cannot be read; with reason NOT_TRUSTED when it was made without
   *     the key, or there is no key and another user could have written it; with reason DIRECTORY
   *     when this store cannot be written, or has something else of that name; an image never
   *     replaces anything
   * @throws dev.gpuprocess.error.ImageException with reason DISK_FULL when the file system has too
   *     little space
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled
   */
  public StoredImage fetch(Path image, Cancellation cancellation) {
    return fetched(image, cancellation);
  }

  /**
   * The same as {@link #fetch(Path, Cancellation)}, which nothing cancels.
   *
   * @param image the directory of an image
   * @return the image in this store
   */
  public StoredImage fetch(Path image) {
    return fetched(image, null);
  }

  private StoredImage fetched(Path image, @Nullable Cancellation cancellation) {
    ImageDirectory source = ImageDirectory.openToCopy(image, context.imageKey());
    Path target = directory().resolve(requireNonNull(source.path().getFileName()));
    Optional<StoredImage> here = existing(source, target);
    if (here.isPresent()) {
      return here.get();
    }
    images.requireNoImage("fetch", 0);
    create();
    try {
      ImageDirectory made =
          ProcessImage.copied(context, source, target, "fetch", cancellation).directory();
      verification.written(made);
      return new StoredImage(made.path(), made.manifest().summary(), null);
    } catch (ImageException e) {
      if (e.reason() != ImageException.Reason.DIRECTORY) {
        throw e;
      }
      // Another call may have been faster.
      return existing(source, target).orElseThrow(() -> e);
    }
  }

  /** The same image, if it is there; it verifies then. */
  private Optional<StoredImage> existing(ImageDirectory source, Path target) {
    ImageDirectory there;
    try {
      there = ImageDirectory.open(target, context.imageKey());
    } catch (ImageException otherOrNone) {
      return Optional.empty(); // the copy says what is in the way
    }
    if (!there.manifest().equals(source.manifest())) {
      return Optional.empty();
    }
    raise(verification.faultNow(there));
    return Optional.of(new StoredImage(there.path(), there.manifest().summary(), null));
  }

  /**
   * Removes one image, whatever it holds: it may be the only image of its process. An image that is
   * being read or restored, in any JVM, stays, and so does one that a process maps, which came back
   * from it and was not resumed yet.
   *
   * @param image a directory in this store
   * @return the reason why it stays, as the end of a sentence about it; empty if it is gone, also
   *     when it did not exist
   * @throws IllegalArgumentException when the image is elsewhere
   * @throws ImageException when there is something else at the path, or it cannot be removed
   */
  public Optional<String> remove(Path image) {
    if (!directory().equals(image.toAbsolutePath().getParent())) {
      throw new IllegalArgumentException(image + " is not in " + directory());
    }
    if (Files.notExists(image, LinkOption.NOFOLLOW_LINKS)) {
      return Optional.empty();
    }
    return new Retention(images, new Journal(context.state()))
        .remove(ImageDirectory.open(image, context.imageKey()));
  }

  /**
   * Removes the images that a policy does not ask for. The images of each process, by pid and
   * command line, are counted apart. These stay whatever the policy says: the newest image of each
   * process that verifies; newer ones that do not verify, which do not count; images that are being
   * read or restored, in any JVM; and images that a process maps, which came back from them and was
   * not resumed yet. Images that are being written are not touched. Partial images are removed if
   * their makers died on this machine, or this JVM could not remove them before, and those of other
   * hosts and containers when their makers have shown no sign of life for 30 minutes: a maker
   * renews the change time of its directory every minute.
   *
   * <p>The newest image is read in full to see whether it verifies, unless that is known: this
   * store has made or verified it, and none of its files was touched since. Verbs may be used on
   * the process at the same time.
   *
   * @param policy what stays
   * @param cancellation ends it early, from another thread, between two images or while one is read
   * @return what was removed, and what was spared
   * @throws ImageException when the directory cannot be read
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled; images that
   *     were removed before are gone
   */
  public PruneReport prune(RetentionPolicy policy, Cancellation cancellation) {
    return new Retention(images, new Journal(context.state()))
        .prune(policy, verification, cancellation::isCancelled);
  }

  /**
   * The same as {@link #prune(RetentionPolicy, Cancellation)}, which nothing cancels.
   *
   * @param policy what stays
   * @return what was removed, and what was spared
   * @throws ImageException when the directory cannot be read
   */
  public PruneReport prune(RetentionPolicy policy) {
    return prune(policy, new Cancellation());
  }

  /**
   * Prunes as a part of something that continues even if this fails.
   *
   * @param pruned told what was done, if anything was
   * @param failed told why it could not be done
   */
  void prune(RetentionPolicy policy, Consumer<PruneReport> pruned, Consumer<Throwable> failed) {
    PruneReport report;
    try {
      report = prune(policy);
    } catch (RuntimeException | Error e) {
      failed.accept(e);
      return;
    }
    if (!report.removed().isEmpty() || !report.spared().isEmpty()) {
      pruned.accept(report);
    }
  }

  /**
   * Finds the newest image that verifies, which it reads in full.
   *
   * @return the image
   * @throws ImageException with reason MISSING when none does; the message names the newest that do
   *     not; with reason DIRECTORY when the directory cannot be read
   * @see #newestThatVerifies(Consumer)
   */
  public ProcessImage newestThatVerifies() {
    return newestThatVerifies(skipped -> {});
  }

  /**
   * Finds the newest image that verifies, which it reads in full.
   *
   * @param skipped told of each newer one that does not verify, and of everything else in the
   *     directory that is not a complete image
   * @return the image
   * @throws ImageException with reason MISSING when none does; the message names the newest that do
   *     not; with reason DIRECTORY when the directory cannot be read
   */
  public ProcessImage newestThatVerifies(Consumer<StoredImage> skipped) {
    return newest(
        image -> {
          raise(verification.faultNow(image));
          return ofProcess(image);
        },
        skipped);
  }

  /**
   * Restores the newest image that verifies. It is read once, and is not removed before the restore
   * is done.
   *
   * @param options how to restore; an image that is not the one they expect is skipped
   * @param skipped told of each newer one that does not verify, and of everything else in the
   *     directory that is not a complete image
   * @return the checkpointed process
   * @throws ImageException with reason MISSING when none verifies; the message names the newest
   *     that do not
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link
   *     ProcessImage#restore(RestoreOptions)}
   */
  public CheckpointedProcess restoreNewest(RestoreOptions options, Consumer<StoredImage> skipped) {
    return withNewest(image -> image.restore(options), skipped);
  }

  /**
   * Uses the newest image that verifies, such as {@code store.withNewest(image -> image.launch(),
   * skipped -> {})}. Images are tried in their order until the use of one does not fail because of
   * the image. A use that verifies the image, as every restore does, reads it once; the caller sees
   * which image it is.
   *
   * @param use called with one image after the other; not called again when it returns, or fails
   *     for another cause than its image
   * @param skipped told of each image that could not be used, and of everything else in the
   *     directory that is not a complete image
   * @param <T> what the use returns
   * @return what the use returned
   * @throws ImageException with reason MISSING when no image could be used; the message names the
   *     newest; with reason DIRECTORY when the directory cannot be read
   */
  public <T> T withNewest(Function<ProcessImage, T> use, Consumer<StoredImage> skipped) {
    return newest(image -> use.apply(ofProcess(image)), skipped);
  }

  private ProcessImage ofProcess(ImageDirectory image) {
    image.requirePlugin(null, "open");
    return ProcessImage.of(context, new DumpedImage(image, List.of(), null));
  }

  private <T> T newest(Function<ImageDirectory, T> attempt, Consumer<StoredImage> skipped) {
    StoreDirectory.Content content = images.read();
    content.others().forEach(skipped);
    List<StoredImage> passed = new ArrayList<>();
    for (ImageDirectory image : content.images()) {
      try {
        return attempt.apply(image);
      } catch (ImageException e) {
        if (!VerificationCache.isFaultOfImage(e) && e.reason() != ImageException.Reason.MISMATCH) {
          throw e;
        }
        passed.add(new StoredImage(image.path(), null, "is skipped: " + e.getMessage()));
        skipped.accept(passed.get(passed.size() - 1));
      }
    }
    passed.addAll(content.others());
    throw new ImageException(
        ImageException.Reason.MISSING,
        "no image in %s can be used: %s".formatted(directory(), words(passed)),
        Failure.of("open", 0));
  }

  private static String words(List<StoredImage> passed) {
    if (passed.isEmpty()) {
      return "there is none, name a directory that has images";
    }
    List<String> first =
        passed.stream().limit(SKIPPED_IN_MESSAGE).map(StoredImage::toString).toList();
    int more = passed.size() - first.size();
    return String.join("; ", first) + (more == 0 ? "" : "; and " + more + " more");
  }

  /**
   * Writes a process to disk as the next image of this store, after which it is gone.
   *
   * @param process of the same settings as this store
   * @return the image
   * @see #dump(RunningProcess, DumpOptions)
   */
  public ProcessImage dump(RunningProcess process) {
    return dump(process, DumpOptions.ofDefaults());
  }

  /**
   * Writes a process to disk as the next image of this store, after which it is gone. The image
   * gets a name that no other has, and a time after all images that are there. The directory is
   * made if it does not exist.
   *
   * @param process of the same settings as this store
   * @param options how to dump
   * @return the image
   * @throws ImageException with reason DIRECTORY when this store cannot be used
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link RunningProcess#dump(Path,
   *     DumpOptions)}
   * @throws IllegalArgumentException when the process is of settings with another image key
   */
  public ProcessImage dump(RunningProcess process, DumpOptions options) {
    ImageNaming.Place place = placeFor(process);
    return noted(process.dump(place.directory(), options, InstantSource.fixed(place.created())));
  }

  /**
   * Writes a suspended process to disk as the next image of this store, after which it is gone.
   *
   * @param process of the same settings as this store
   * @param options how to dump
   * @return the image
   * @throws ImageException with reason DIRECTORY when this store cannot be used
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link CheckpointedProcess#dump(Path,
   *     DumpOptions)}
   * @throws IllegalArgumentException when the process is of settings with another image key
   * @see #dump(RunningProcess, DumpOptions)
   */
  public ProcessImage dump(CheckpointedProcess process, DumpOptions options) {
    return dump(process, options, image -> {});
  }

  /**
   * Writes a suspended process to disk as the next image of this store, for a program that records
   * where its processes are: it learns the directory while the process is still there.
   *
   * @param process of the same settings as this store
   * @param options how to dump
   * @param named is handed the directory of the image, by this thread, before anything is written
   *     or touched. What it throws ends the dump, and the process stays suspended
   * @return the image
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #dump(CheckpointedProcess,
   *     DumpOptions)}
   * @throws IllegalArgumentException when the process is of settings with another image key
   */
  public ProcessImage dump(CheckpointedProcess process, DumpOptions options, Consumer<Path> named) {
    ImageNaming.Place place = placeFor(process);
    named.accept(place.directory());
    return noted(process.dump(place.directory(), options, InstantSource.fixed(place.created())));
  }

  /**
   * Makes a snapshot of a process as the next image of this store.
   *
   * @param process of the same settings as this store
   * @return the image
   * @see #snapshot(RunningProcess, DumpOptions)
   */
  public ProcessImage snapshot(RunningProcess process) {
    return snapshot(process, DumpOptions.ofDefaults());
  }

  /**
   * Makes a snapshot of a process, which goes on, as the next image of this store. The image gets a
   * name that no other has, and a time after all images that are there. The directory is made if it
   * does not exist.
   *
   * @param process of the same settings as this store
   * @param options how to dump; the process is left running in any case
   * @return the image
   * @throws ImageException with reason DIRECTORY when this store cannot be used
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link RunningProcess#snapshot(Path,
   *     DumpOptions)}
   * @throws IllegalArgumentException when the process is of settings with another image key
   */
  public ProcessImage snapshot(RunningProcess process, DumpOptions options) {
    ImageNaming.Place place = placeFor(process);
    return noted(
        process.snapshot(place.directory(), options, InstantSource.fixed(place.created())));
  }

  private ImageNaming.Place placeFor(LiveProcess process) {
    requireFor(process.self.tree().context);
    create();
    return next(process.self.tree().root.pid());
  }

  private ProcessImage noted(ProcessImage image) {
    made(image);
    return image;
  }

  /**
   * Requires that it reads what these settings write.
   *
   * @throws IllegalArgumentException when they have another image key
   */
  void requireFor(EngineContext other) {
    if (!isFor(other)) {
      throw new IllegalArgumentException(
          "%s are read with another image key: take the store of the same GpuCheckpoints"
              .formatted(this));
    }
  }

  /** Whether it reads and writes images as these settings do. */
  private boolean isFor(EngineContext other) {
    return signature(context).equals(signature(other));
  }

  private static String signature(EngineContext context) {
    return context.imageKey() == null ? "" : context.imageKey().code(new byte[0]);
  }

  /**
   * Makes the directory if it does not exist.
   *
   * @throws ImageException with reason DIRECTORY when it cannot be made
   * @throws ImageException with reason DISK_FULL when the file system is full
   */
  /**
   * Creates the directory, with those above it, unless it exists. Dumps, snapshots and fetches do
   * the same; a program that wants to know early that no image can be kept here calls this first.
   *
   * @throws ImageException with reason DIRECTORY when the directory cannot be made
   */
  public void create() {
    try {
      Path unused = ImagePlace.of(directory().resolve("image"));
    } catch (IOException e) {
      throw ImageTarget.failed(
          Failure.of("snapshot", 0),
          ImageException.Reason.DIRECTORY,
          "no images can be kept in %s, which cannot be made: %s"
              .formatted(directory(), ImagePlace.reason(e)),
          e);
    }
  }

  /** Where the next image of a process goes, and when it is made. */
  ImageNaming.Place next(int pid) {
    return new ImageNaming(images, context.state(), clock, context.timeouts().call()).next(pid);
  }

  /** An image that was made there just now. */
  void made(ProcessImage image) {
    verification.written(new ImageDirectory(image.directory(), image.data()));
  }

  @Override
  public String toString() {
    return "images in " + directory();
  }
}
