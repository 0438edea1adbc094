package dev.gpuprocess;

/**
 * Where the snapshots go that a launched process requests, and which of them stay. Immutable. Its
 * listener gets no {@linkplain SnapshotListener#skipped skipped} snapshots: such a request is
 * refused, and the listener gets a {@linkplain SnapshotListener#failed failed} one.
 *
 * <p>A process that is {@linkplain GpuCheckpoints#launch(dev.gpuprocess.options.LaunchOptions,
 * RequestPlan) launched} with a plan has a small process of this library as its root, and the
 * command as the child of that: so a program may do with signals what it likes, and nothing is
 * loaded into it for this. The root is dumped and restored with the process, and
 *
 * <ul>
 *   <li>takes SIGUSR1 as a request for a snapshot at the next moment at which the GPUs are idle:
 *       they are locked for at most 50 ms, at first four times a second and later every other
 *       second, until that succeeds and no other verb has the process;
 *   <li>takes SIGUSR2 as a request for a snapshot now: as {@link RunningProcess#snapshot(
 *       java.nio.file.Path, DumpOptions)}, which holds CUDA calls back until GPU work has ended. It
 *       makes a request that waits for idle GPUs urgent;
 *   <li>listens on a UNIX stream socket, whose path the process has in {@code GPUPROCESS_SOCKET},
 *       for one line, {@code idle} or {@code now}, and answers with one line when the snapshot is
 *       made: {@code original} in the process that continues, and {@code restored} in every copy
 *       restored from the image. A dump by another verb in that time counts as the snapshot. Every
 *       process of the tree may send a request; all requests that wait share a snapshot;
 *   <li>answers {@code refused:} and a reason when there is none: it failed, another one is being
 *       made, the JVM that has launched the process is gone (which is noticed within seconds), or
 *       the line is another. A process that is not a descendant of the root gets {@code asked} at
 *       once, since it is not in the image. Users other than the process's and root are refused, a
 *       connection that sends nothing within five seconds is closed, and 64 connections are
 *       accepted at a time;
 *   <li>passes every other signal on to the command, and ends as that does. The root of an
 *       {@linkplain dev.gpuprocess.options.LaunchOptions.Builder#isolated isolated} process exits
 *       with 128 and the signal's number when a signal has ended the command.
 * </ul>
 *
 * <p>The pid to be signalled is that of {@link LaunchedProcess#identity()}; the process has it, as
 * it sees it, in {@code GPUPROCESS_ROOT}. A signal that cannot be served now, as when a snapshot is
 * being made, is lost. The command leads a process group of its own in the session of the process.
 * After a restore that brings the process back for the JVM that has launched it, requests are taken
 * again; after any other, and in further copies of an isolated process, they are refused.
 *
 * <p>The snapshots are made by daemon threads of this JVM, which end with the process. After a
 * snapshot that failed and left the process suspended, the process is resumed. No failure ends the
 * threads.
 */
public final class RequestPlan extends Plan {

  private RequestPlan(Builder from) {
    super(from);
  }

  /**
   * Starts a plan.
   *
   * @param place the images' directory, of the same settings as the process, and with room for one
   *     image more than are kept
   * @return a builder
   */
  public static Builder into(ImageStore place) {
    return new Builder(place);
  }

  /** Builds {@link RequestPlan}. Not for use by several threads. */
  public static final class Builder extends Plan.Builder<Builder> {

    private Builder(ImageStore place) {
      super(place);
    }

    @Override
    Builder self() {
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the plan
     */
    public RequestPlan build() {
      return new RequestPlan(this);
    }
  }
}
