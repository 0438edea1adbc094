package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.error.MigrationFailedException;
import dev.gpuprocess.error.MigrationInDoubtException;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.internal.store.LogDirectory;
import dev.gpuprocess.internal.store.SentManifest;
import dev.gpuprocess.internal.store.StagedImage;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.wire.FileTransfer;
import dev.gpuprocess.internal.wire.Kind;
import dev.gpuprocess.internal.wire.LocalPort;
import dev.gpuprocess.internal.wire.Message;
import dev.gpuprocess.internal.wire.Offer;
import dev.gpuprocess.internal.wire.PageRelay;
import dev.gpuprocess.internal.wire.RefusedException;
import dev.gpuprocess.internal.wire.Wire;
import dev.gpuprocess.internal.wire.Wires;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.PageReceiver;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * The other end of a {@link Migration}: what comes becomes an image here. It is complete and on
 * disk before the sender is told so, and stays unless the sender says that it keeps the process.
 */
public final class Reception implements AutoCloseable {

  private static final String VERB = "receive";

  private final EngineContext context;
  private final Wires wires;
  private final long end;
  private @Nullable Wire wire;
  private boolean closed;

  private Reception(EngineContext context, Wires wires, Duration limit) {
    this.context = context;
    this.wires = wires;
    this.end = Durations.end(limit);
  }

  /**
   * Begins to listen.
   *
   * @param limit for all of it, from now on
   */
  public static Reception listen(EngineContext context, PageEndpoint here, Duration limit) {
    try {
      return new Reception(context, Wires.listen(here, context.imageKey()), limit);
    } catch (IOException e) {
      throw new MigrationFailedException(
          "nothing can be received at %s: %s".formatted(here, e.getMessage()),
          Failure.of(VERB, 0),
          e);
    }
  }

  /** Where it listens. */
  public PageEndpoint here() {
    return wires.here();
  }

  /**
   * Receives an image.
   *
   * @param directory where it will be
   */
  public ImageDirectory image(Path directory) {
    return received((from, offer) -> new Arriving(from, offer).image(directory));
  }

  /** What is done with one that comes. */
  interface Arrival<T> {
    T of(Wire wire, Offer offer) throws IOException;
  }

  /** Waits for a sender, and has what it sends taken; tells it when that fails. */
  private <T> T received(Arrival<T> arrival) {
    Wire from = null;
    long pid = 0;
    try {
      from = accepted();
      Offer offer = Offer.of(from.receive(Kind.OFFER));
      pid = offer.pid();
      return arrival.of(from, offer);
    } catch (IOException e) {
      refuse(from, e);
      throw failed(pid, e);
    } catch (Throwable e) {
      refuse(from, e);
      throw e;
    }
  }

  private static void refuse(@Nullable Wire from, Throwable why) {
    // What is in doubt is nobody's to decide.
    boolean inDoubt = why instanceof MigrationInDoubtException || why instanceof ImageKeptException;
    if (from != null && !(why instanceof RefusedException || inDoubt)) {
      from.refuse(
          why instanceof GpuCheckpointException || why instanceof IOException
              ? String.valueOf(why.getMessage())
              : why.toString());
    }
    if (from != null) {
      from.close();
    }
  }

  private Wire accepted() throws IOException {
    Wire accepted = wires.accept(end);
    synchronized (this) {
      wire = accepted;
      if (closed) {
        accepted.close();
      }
    }
    return accepted;
  }

  static MigrationFailedException failed(long pid, IOException e) {
    return new MigrationFailedException(
        e instanceof RefusedException
            ? "process %s did not come: the sender says: %s".formatted(pid, e.getMessage())
            : "process %s did not come, and nothing of it is here: %s"
                .formatted(pid == 0 ? "of the sender" : pid, e.getMessage()),
        Failure.of(VERB, pid),
        e);
  }

  /** The time that is left. */
  Duration left() {
    return Duration.ofNanos(Math.max(1, Durations.left(end)));
  }

  /** How much of what was offered may come: the estimate is one of a process that ran on. */
  static long most(Offer offer) {
    return Math.addExact(Math.min(offer.bytes(), Long.MAX_VALUE / 4) * 2, 1L << 30);
  }

  /** Takes the files and the manifest that come before the sender waits. */
  static Manifest files(Wire from, Offer offer, Path shown, Path images) throws IOException {
    FileTransfer files = new FileTransfer(from, most(offer));
    Message next = from.receive();
    for (; next.kind() == Kind.FILE; next = from.receive()) {
      files.receive(next, images);
    }
    if (next.kind() != Kind.MANIFEST) {
      throw new IOException("%s came among the files".formatted(next.kind()));
    }
    Manifest sent = SentManifest.read(shown, next.content());
    if (sent.pid() != offer.pid() || sent.startTicks() != offer.startTicks()) {
      throw new IOException("another process came than was offered");
    }
    return sent;
  }

  /** One that comes to be an image. */
  private final class Arriving {

    private final Wire from;
    private final Offer offer;

    Arriving(Wire from, Offer offer) {
      this.from = from;
      this.offer = offer;
    }

    ImageDirectory image(Path directory) throws IOException {
      BoundedDiskTask disk = new BoundedDiskTask(VERB, offer.pid(), directory, left());
      disk.requireCapacity();
      StagedImage image =
          disk.run(
              "stage",
              () ->
                  StagedImage.create(
                      directory,
                      new ProcessIdentity(offer.pid(), offer.startTicks()),
                      offer.bytes(),
                      context.imageKey(),
                      LogDirectory.planned(VERB)),
              Dump::close);
      try {
        pages(image);
        Manifest sent = files(from, offer, directory, image.images());
        Function<List<ImageFile>, Manifest> whole = SentManifest.completed(sent);
        ImageDirectory made =
            disk.run(
                "seal",
                () -> image.publish(whole),
                late -> {
                  image.retractWhenClosed();
                  image.close();
                });
        awaitVerdict(image, made);
        image.logUnwanted();
        from.close();
        return made;
      } catch (RuntimeException e) {
        image.endedWith(e);
        throw e;
      } finally {
        if (!disk.hangs()) {
          disk.tidy("tidy", context.timeouts().call(), image::close);
        }
      }
    }

    private void pages(StagedImage image) throws IOException {
      PageEndpoint local = LocalPort.free();
      try (PageReceiver pages =
          context.criu().receivePages(image.images(), image.work(), local, left())) {
        from.send(Kind.ACCEPT);
        try (PageRelay relay = PageRelay.to(pages.endpoint(), from, most(offer))) {
          relay.await();
        }
        pages.await();
      }
    }

    /** The sender may let the process die now. */
    private void awaitVerdict(StagedImage image, ImageDirectory made) throws IOException {
      try {
        from.send(Kind.READY);
        Message unused = from.receive(Kind.COMMIT);
      } catch (RefusedException e) {
        image.retractWhenClosed();
        throw e;
      } catch (IOException e) {
        throw new ImageKeptException(
            "the image of process %s at %s is complete and on disk, but the sender did not say whether the process is gone there (%s): look there, then restore the image if it is, and remove it if not"
                .formatted(offer.pid(), made.path(), e.getMessage()),
            Failure.of(VERB, offer.pid()),
            made.path(),
            e);
      }
    }
  }

  /** Ends it, also while another thread waits. What is complete stays. */
  @Override
  public void close() {
    wires.close();
    synchronized (this) {
      closed = true;
      if (wire != null) {
        wire.close();
      }
    }
  }
}
