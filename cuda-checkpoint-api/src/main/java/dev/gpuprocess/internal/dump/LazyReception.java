package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.MigrationFailedException;
import dev.gpuprocess.error.MigrationInDoubtException;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.internal.store.LogDirectory;
import dev.gpuprocess.internal.store.SentManifest;
import dev.gpuprocess.internal.store.StagedImage;
import dev.gpuprocess.internal.wire.Kind;
import dev.gpuprocess.internal.wire.Message;
import dev.gpuprocess.internal.wire.Offer;
import dev.gpuprocess.internal.wire.Wire;
import dev.gpuprocess.options.MigrationMode;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.jspecify.annotations.Nullable;

/**
 * The other end of a lazy {@link Migration}: what comes is restored here, and its memory follows.
 * The sender's tree stands still meanwhile. One whose memory does not all come is ended here, and
 * the sender has it.
 */
public final class LazyReception implements AutoCloseable {

  private static final String VERB = "receive";
  private static final String CLOSED = "the receiver was closed";

  /** Room for all of an image but its memory. */
  private static final long FILES_BYTES = 64 << 20;

  private final EngineContext context;
  private final Reception reception;
  private final LogDirectory place;
  private @Nullable StagedImage image;
  private @Nullable FetchedMemory memory;
  private @Nullable CompletableFuture<Boolean> arrived;
  private boolean begun;
  private boolean closed;

  /**
   * Begins.
   *
   * @param reception which listens; closed with this
   */
  public LazyReception(EngineContext context, Reception reception) {
    this.context = context;
    this.reception = reception;
    this.place = LogDirectory.planned(VERB);
  }

  /** Where it listens. */
  public PageEndpoint here() {
    return reception.here();
  }

  /**
   * Waits for a sender, and restores what it sends.
   *
   * @param asJob whether the handle is of a job
   * @return the process or job, checkpointed, while its memory is coming
   */
  public StateHandle restore(RestoreOptions options, boolean asJob) {
    synchronized (this) {
      if (begun) {
        throw new IllegalStateException("a receiver takes one process, and this one had its turn");
      }
      begun = true;
    }
    return reception.received(
        MigrationMode.LAZY_PAGES, (from, offer) -> restore(from, offer, options, asJob));
  }

  private StateHandle restore(Wire from, Offer offer, RestoreOptions options, boolean asJob)
      throws IOException {
    if (!context.criu().features().map(all -> all.contains(CriuFeature.LAZY_PAGES)).orElse(true)) {
      throw new IOException(
          "this kernel has no userfaultfd for CRIU: migrate by PAGE_SERVER instead");
    }
    place.make();
    Path directory = place.path().resolve("image");
    StagedImage staged =
        StagedImage.create(
            directory,
            new ProcessIdentity(offer.pid(), offer.startTicks()),
            FILES_BYTES,
            context.imageKey(),
            LogDirectory.planned(VERB));
    keep(staged);
    from.send(Kind.ACCEPT);
    Manifest sent = Reception.files(from, offer, directory, staged.images());
    ImageDirectory made = staged.publish(SentManifest.completed(sent));
    staged.retractWhenClosed(); // nobody else restores it
    FetchedMemory coming =
        new FetchedMemory(
            context.criu(), from, made.images(), reception.left(), Reception.most(offer));
    keep(coming);
    StepRecorder steps = new StepRecorder(context.listener(), sent.pid(), List.of());
    StateHandle restored;
    try {
      restored = new ImageRestore(context, made, steps, coming).run(options, asJob);
    } catch (Throwable e) {
      // Such as what a listener throws when the tree runs: there must not be one here and one
      // there.
      if (coming.broken()) {
        throw e;
      }
      throw inDoubt(coming, sent.pid(), e);
    }
    follow(from, coming, sent.pid());
    return restored;
  }

  private synchronized void keep(StagedImage staged) throws IOException {
    if (closed) {
      staged.close();
      throw new IOException(CLOSED);
    }
    image = staged;
  }

  private synchronized void keep(FetchedMemory coming) throws IOException {
    if (closed) {
      throw new IOException(CLOSED);
    }
    memory = coming;
  }

  private synchronized void follow(Wire from, FetchedMemory coming, int pid) {
    CompletableFuture<Boolean> outcome = new CompletableFuture<>();
    arrived = outcome;
    Thread thread =
        new Thread(
            () -> {
              try {
                finish(from, coming, pid);
                outcome.complete(true);
              } catch (RuntimeException e) {
                outcome.completeExceptionally(e);
              }
            },
            "migration of process " + pid);
    thread.setDaemon(true);
    thread.start();
  }

  private static void finish(Wire from, FetchedMemory coming, int pid) {
    try (from) {
      try {
        coming.await();
      } catch (IOException e) {
        if (!coming.broken()) {
          throw inDoubt(coming, pid, e);
        }
        from.refuse(
            "the process was ended there, as not all of its memory came: " + e.getMessage());
        throw new MigrationFailedException(
            "process %s did not get all of its memory and was ended here: %s; the sender has it, checkpointed"
                .formatted(pid, e.getMessage()),
            Failure.of(VERB, pid),
            e);
      }
      try {
        Message unused = from.receive(Kind.DONE);
      } catch (IOException e) {
        throw inDoubt(coming, pid, e);
      }
    }
  }

  private static MigrationInDoubtException inDoubt(FetchedMemory memory, int pid, Throwable e) {
    String message =
        memory.isWhole()
            ? "process %s is here with all of its memory, but the sender did not say that it is gone there (%s): look there, and end it where it must not go on"
            : "process %s did not get all of its memory and does not end here (%s): see that it is gone, with all processes below it, before it goes on at the sender";
    return new MigrationInDoubtException(
        message.formatted(pid, e.getMessage()), Failure.of(VERB, pid), e);
  }

  /** Waits until all memory has come and the process is gone from its host. */
  public void awaitMemory() {
    CompletableFuture<Boolean> outcome;
    synchronized (this) {
      outcome = arrived;
    }
    if (outcome == null) {
      throw new IllegalStateException("nothing was restored with this receiver");
    }
    try {
      boolean unused = outcome.join();
    } catch (CompletionException e) {
      if (e.getCause() instanceof GpuCheckpointException known) {
        throw known;
      }
      throw e;
    }
  }

  /** Ends it. What lacks memory is ended with it; what has all of it goes on. */
  @Override
  public void close() {
    synchronized (this) {
      begun = true;
    }
    reception.close();
    FetchedMemory coming;
    StagedImage staged;
    CompletableFuture<Boolean> outcome;
    synchronized (this) {
      closed = true;
      coming = memory;
      staged = image;
      outcome = arrived;
    }
    if (outcome != null) {
      Object unused = outcome.handle((done, failed) -> done).join(); // the connection was cut
    }
    if (coming != null) {
      coming.close();
    }
    if (staged != null) {
      staged.close();
    }
    place.delete();
  }
}
