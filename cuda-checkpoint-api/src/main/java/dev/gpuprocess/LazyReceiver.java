package dev.gpuprocess;

import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.LazyReception;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.RestoreOptions;

/**
 * Where a process or job arrives that is {@linkplain CheckpointedProcess#migrate migrated} from
 * another host before its memory is. One receiver takes one.
 *
 * <p>{@link #restore} returns when the tree runs here, still checkpointed; it can be resumed at
 * once, and waits for each page that it touches. Until {@link #awaitMemory} has returned it is
 * whole on neither host. If the hosts lose each other before that, or the deadline passes, or this
 * is closed, the tree is ended here, and the sender has it, checkpointed, as it was dumped. If this
 * JVM is killed then, the sender has it too, and what is left of it here must be ended: it finds
 * zeroes where memory is missing.
 *
 * <p>The image directory is a temporary one: nothing is left on the disk. Of strangers {@link
 * ImageReceiver} says what is true here too.
 */
public final class LazyReceiver implements AutoCloseable {

  private final EngineContext context;
  private final LazyReception reception;

  LazyReceiver(EngineContext context, LazyReception reception) {
    this.context = context;
    this.reception = reception;
  }

  /**
   * Where it listens, for the sender.
   *
   * @return the address that it was given, with the port
   */
  public PageEndpoint endpoint() {
    return reception.here();
  }

  /**
   * Waits for a process and restores it.
   *
   * @param options how; settings that must be those of the dump come from the sender
   * @return the checkpointed process, whose memory is coming
   * @throws dev.gpuprocess.error.ImageMismatchException when it is a job with several CUDA
   *     processes; it stays with the sender
   * @see #restoreJob
   */
  public CheckpointedProcess restore(RestoreOptions options) {
    return new CheckpointedProcess(reception.restore(options, false));
  }

  /**
   * Waits for a job and restores it. A process is a job of one member.
   *
   * @param options how; settings that must be those of the dump come from the sender
   * @return the checkpointed job, whose memory is coming
   * @throws dev.gpuprocess.error.MigrationFailedException when nobody came in time, or what came
   *     was not whole, or the sender kept it; nothing of it is left here
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link
   *     JobImage#restore(RestoreOptions)}; it stays with the sender
   * @throws dev.gpuprocess.error.MigrationInDoubtException when it failed after the tree ran, and
   *     the tree has all of its memory by now or does not end; the sender is told nothing then
   * @throws IllegalStateException when this receiver has taken one before, or was closed
   */
  public CheckpointedJob restoreJob(RestoreOptions options) {
    return new CheckpointedJob(reception.restore(options, true));
  }

  /**
   * Waits until all memory has come and the process is gone from its host, which the deadline of
   * the receiver bounds.
   *
   * @throws dev.gpuprocess.error.MigrationFailedException when it did not come; the tree was ended
   *     here, and the sender has it
   * @throws dev.gpuprocess.error.MigrationInDoubtException when all of it came, and the sender went
   *     away before it said that the process is gone there; or when it did not come, and the tree
   *     does not end here within five seconds
   * @throws IllegalStateException when nothing was restored
   */
  public void awaitMemory() {
    reception.awaitMemory();
  }

  /** Ends it; a tree that still lacks memory is ended too. */
  @Override
  public void close() {
    reception.close();
  }

  @Override
  public String toString() {
    return "receiver at " + endpoint() + " with the state directory " + context.state().path();
  }
}
