package dev.gpuprocess.slot;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.Cancellation;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Processes that take turns on the GPUs of this machine: only one runs on a GPU at a time, and the
 * others wait in host memory, or on disk.
 *
 * <pre>{@code
 * try (GpuSlot slot = GpuSlot.named("main").open()) {
 *   slot.enqueue(training, 0); // runs while no other process wants the GPU
 *   slot.acquire(inference, 1); // takes it at once
 *   answer.run();
 *   slot.release(inference); // the training continues
 * }
 * }</pre>
 *
 * <p><b>Turns.</b> A process wants a GPU from {@link #acquire} or {@link #enqueue} until {@link
 * #release}. It takes the GPUs that it uses; processes that use different GPUs run at the same
 * time. A process keeps its GPUs until another process wants them: nothing is suspended while no
 * process waits. A process of a higher priority takes the GPUs at once. Processes of the same
 * priority take turns in the order in which they came, each for at least a {@linkplain
 * Builder#quantum quantum}; a process of a lower priority waits until no other wants the GPUs. A
 * process that runs when it enters the slot, and whose turn it is not, is suspended.
 *
 * <p><b>Failures.</b> One swap at a time changes a GPU. When a move of it fails, the processes that
 * had their turn continue, the listener is notified, and the swap is tried again, with pauses that
 * grow to ten seconds. A process that ran out of GPU memory when it was brought back ({@link
 * PoisonedProcessException}) leaves the queue, and so does a process that has ended.
 *
 * <p><b>Controllers.</b> The queue has a durable record in the {@linkplain
 * GpuCheckpoints#stateDirectory() state directory}. One JVM at a time has a slot open. When it is
 * closed or its JVM dies, all processes stay where they are: running, suspended, or in images that
 * the record names. The next JVM that opens a slot of this name continues with the same queue.
 * Other verbs may be used on the processes; a swap waits for a verb that is under way.
 *
 * <p>The moves are made by daemon threads of this JVM. May be used from any thread.
 */
public final class GpuSlot implements AutoCloseable {

  private final String name;
  private final SlotController controller;

  private GpuSlot(String name, SlotController controller) {
    this.name = name;
    this.controller = controller;
  }

  /**
   * Starts the description of a slot, with the drivers and settings of this machine.
   *
   * @param name names the queue in the state directory: letters, digits, dots, hyphens and
   *     underscores
   * @return a builder
   * @throws IllegalArgumentException when it has other characters, or is longer than 100
   * @see #named(String, GpuCheckpoints)
   */
  public static Builder named(String name) {
    return named(name, GpuCheckpoints.standard());
  }

  /**
   * Starts the description of a slot.
   *
   * @param name names the queue in the state directory: letters, digits, dots, hyphens and
   *     underscores
   * @param checkpoints the drivers and settings of all moves
   * @return a builder
   * @throws IllegalArgumentException when it has other characters, or is longer than 100
   */
  public static Builder named(String name, GpuCheckpoints checkpoints) {
    return new Builder(name, checkpoints);
  }

  /**
   * Waits for the turn of a process with priority 0, without a limit.
   *
   * @param pid of the root
   * @return the running process
   * @see #acquire(long, int, Duration, Cancellation)
   */
  public RunningProcess acquire(long pid) {
    return acquire(pid, 0);
  }

  /**
   * Waits for the turn of a process, without a limit.
   *
   * @param pid of the root
   * @param priority the greater, the more urgent
   * @return the running process
   * @see #acquire(long, int, Duration, Cancellation)
   */
  public RunningProcess acquire(long pid, int priority) {
    return acquire(pid, priority, Durations.LONGEST, new Cancellation());
  }

  /**
   * Waits for the turn of a process: the processes that run on its GPUs are suspended when they
   * have to leave, and it is resumed, from an image if it is on disk. It wants its GPUs from now on
   * until {@link #release}: when it has to leave them for another process, it waits for its next
   * turn without a further call. Enters the process in the queue if it is not there. A process that
   * is there gets the new priority, and keeps its place in the queue if it waits already.
   *
   * <p>If this is cancelled, or the deadline passes, or the thread is interrupted, a swap that is
   * under way for the process is undone, and the process no longer wants a GPU. It stays in the
   * queue, suspended. For a future, use {@link Cancellation#async}.
   *
   * @param pid of the root; it runs or is suspended, or it is on disk for this slot
   * @param priority the greater, the more urgent. A more urgent process gets its turn first, and
   *     takes the GPU at once from a less urgent one. Processes of the same priority take turns in
   *     the order in which they came, each for a quantum
   * @param limit how long to wait, the swap included; {@code ChronoUnit.FOREVER.getDuration()} for
   *     no limit
   * @param cancellation ends the wait early
   * @return the running process; stale as soon as its turn has ended
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed; the last
   *     failure of a move is suppressed in it
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled, this thread was
   *     interrupted (its interrupt flag stays set), or the slot was closed
   * @throws dev.gpuprocess.error.NoSuchProcessException when the process does not exist, or ended
   *     while it waited
   * @throws PoisonedProcessException when the process ran out of GPU memory when it was brought
   *     back; it is no longer in the queue
   * @throws dev.gpuprocess.error.FixAndRetryException with reason WRONG_STATE when the driver has
   *     given the process up
   * @throws dev.gpuprocess.error.FixAndRetryException with reason STATE_DIRECTORY when the queue
   *     cannot be recorded; the process was not entered
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link GpuCheckpoints#inspect}; the
   *     process was not entered
   * @throws IllegalArgumentException unless the limit is positive
   */
  public RunningProcess acquire(long pid, int priority, Duration limit, Cancellation cancellation) {
    return controller.acquire(
        pid,
        priority,
        Durations.positive("limit", limit),
        requireNonNull(cancellation, "cancellation"));
  }

  /**
   * The same as {@link #acquire(long, int)}, without waiting for the turn.
   *
   * @param pid of the root
   * @param priority the greater, the more urgent
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #acquire(long, int)} when the
   *     process cannot be entered
   */
  public void enqueue(long pid, int priority) {
    controller.enqueue(pid, priority);
  }

  /**
   * Records that a process does not want its GPUs any more. If it holds them, it stays on them and
   * runs, until another process wants them. Does nothing for a process that does not want them, or
   * has ended.
   *
   * @param pid of the root
   */
  public void release(long pid) {
    controller.release(pid);
  }

  /**
   * Takes a process out of the queue, and leaves it where it is. From here on it is the caller's: a
   * suspended one can be {@linkplain GpuCheckpoints#resume(long) resumed}, and one on disk is
   * {@linkplain GpuCheckpoints#open opened} by its image. A move that is under way is finished
   * first.
   *
   * @param pid of the root
   * @return where it was left
   * @throws dev.gpuprocess.error.NoSuchProcessException when it is not in the queue
   * @throws dev.gpuprocess.error.OperationTimedOutException when a move of it did not end within
   *     {@link dev.gpuprocess.options.Timeouts#transfer()}; it is still in the queue
   */
  public SlotProcess remove(long pid) {
    return controller.remove(pid);
  }

  /**
   * Lists the processes of the queue. Does not wait for moves that are under way.
   *
   * @return those that hold their GPUs first, then the others in the order of their turns
   */
  public List<SlotProcess> processes() {
    return controller.processes();
  }

  /**
   * Ends the turns: swaps that are under way are undone or finished, calls of {@link #acquire} that
   * wait are cancelled, and the queue stays in its record. All processes stay where they are. Waits
   * for swaps for up to {@link dev.gpuprocess.options.Timeouts#transfer()}. An interrupt does not
   * shorten that; the thread stays interrupted. Does nothing the second time.
   */
  @Override
  public void close() {
    controller.close();
  }

  @Override
  public String toString() {
    return "slot " + name;
  }

  /** Describes a slot, and opens it. Not for use by several threads. */
  public static final class Builder {

    private static final int LONGEST_NAME = 100;

    final GpuCheckpoints checkpoints;
    final String name;
    Duration quantum = Duration.ofSeconds(30);
    long hostMemory = Long.MAX_VALUE;
    @Nullable ImageStore store;
    Consumer<SlotEvent> listener = event -> {};

    private Builder(String name, GpuCheckpoints checkpoints) {
      if (!name.matches("[\\w-][\\w.-]*") || name.length() > LONGEST_NAME) {
        throw new IllegalArgumentException(
            "a slot is named by at most 100 letters, digits, dots, hyphens and underscores, not '%s'"
                .formatted(name));
      }
      this.checkpoints = checkpoints;
      this.name = name;
    }

    Thread thread(Runnable work, String purpose) {
      Thread thread = new Thread(work, purpose + " " + name);
      thread.setDaemon(true);
      return thread;
    }

    /**
     * Sets how long a turn lasts at least, among processes of the same priority. A suspend and a
     * resume take a second or more for each 16 GiB: a quantum should be many times that.
     *
     * @param quantum 30 seconds by default
     * @return this builder
     * @throws IllegalArgumentException when it is negative
     */
    public Builder quantum(Duration quantum) {
      this.quantum = Durations.notNegative("quantum of a slot", quantum);
      return this;
    }

    /**
     * Sets how much host memory the suspended processes may hold. When they hold more, the least
     * urgent of them goes to disk, where it needs CRIU, and comes back by a restore before its next
     * turn. During a swap the budget is exceeded by what the process that leaves holds. A process
     * that cannot be dumped stays in host memory; the listener is notified, and it is tried again.
     *
     * @param bytes what processes hold on their GPUs counts; no limit by default
     * @param images the directory to which the processes go, an {@link ImageStore}; made if it does
     *     not exist. An image is removed when its process runs again
     * @return this builder
     * @throws IllegalArgumentException when it is negative
     */
    public Builder hostMemory(long bytes, Path images) {
      if (bytes < 0) {
        throw new IllegalArgumentException("the budget must not be negative, as " + bytes);
      }
      this.hostMemory = bytes;
      this.store = checkpoints.store(images);
      return this;
    }

    /**
     * Sets the listener of all that the slot does, in the order in which it is done, on one thread
     * of its own. What it throws is logged and changes nothing.
     *
     * @param listener by default none
     * @return this builder
     */
    public Builder listener(Consumer<SlotEvent> listener) {
      this.listener = requireNonNull(listener, "listener");
      return this;
    }

    /**
     * Opens the slot, and continues with the queue that its last controller left. What that did not
     * finish is mended first ({@link GpuCheckpoints#recover()}). The priorities are those of the
     * record; quantum, budget and listener are those of this builder.
     *
     * @return the slot, which is at work
     * @throws dev.gpuprocess.error.OperationInProgressException when another controller, or this
     *     JVM, has it open
     * @throws dev.gpuprocess.error.FixAndRetryException with reason STATE_DIRECTORY when the record
     *     cannot be read or written
     * @throws dev.gpuprocess.error.ImageException with reason DIRECTORY when the directory for the
     *     images cannot be made
     * @throws dev.gpuprocess.error.GpuCheckpointException as {@link GpuCheckpoints#recover()}
     */
    public GpuSlot open() {
      if (store != null) {
        store.create();
      }
      return new GpuSlot(name, SlotController.open(this));
    }
  }
}
