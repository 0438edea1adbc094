package dev.gpuprocess.internal.call;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.time.Deadline;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * A call that reads the state of a process. The driver returns only after the checkpoint, restore
 * or lock under way. So for each process and driver at most one call is under way. Callers that
 * arrive in the meantime share the next call, since the current one may already have an older
 * result. Safe for use by several threads.
 *
 * <p>A call that its callers have abandoned remains the only one. It counts as abandoned, but does
 * not cause operations to be refused.
 */
public final class StateReading {

  private static final Duration AT_ONCE = Duration.ofMillis(500);

  private record Subject(CudaDriver driver, int pid) {

    @Override
    public String toString() {
      return "the state of process " + pid;
    }
  }

  /** The call that is under way, and the next one if a caller waits for it. */
  private record Line(StateReading current, @Nullable StateReading next) {}

  private static final Map<Subject, Line> LINES = new ConcurrentHashMap<>();

  private final CompletableFuture<CudaAnswer<ProcessState>> answer = new CompletableFuture<>();
  private final String name;
  private boolean left;
  private @Nullable AbandonedCallEvent event;

  private StateReading(int pid) {
    name = "getState " + pid;
  }

  /** Returns how many calls are under way that a caller has abandoned. */
  public static int leftBehind() {
    return (int) LINES.values().stream().filter(line -> line.current().isLeft()).count();
  }

  /** Returns whether a call about this process is under way that a caller has abandoned. */
  public static boolean isLeftBehind(CudaDriver driver, int pid) {
    Line line = LINES.get(new Subject(driver, pid));
    return line != null && line.current().isLeft();
  }

  /** Begins a call, or joins one. The result is never older than this. */
  public static StateReading ask(CudaDriver driver, int pid) {
    Subject subject = new Subject(driver, pid);
    Line line = LINES.compute(subject, (of, found) -> joined(found, pid));
    StateReading next = line.next();
    if (next != null) {
      return next;
    }
    StateReading mine = line.current();
    try {
      BoundedCall.THREADS.execute(() -> serve(subject, mine));
    } catch (RuntimeException | Error e) {
      for (StateReading each = mine; each != null; each = after(subject)) {
        each.answer.completeExceptionally(e);
      }
    }
    return mine;
  }

  /**
   * Reads the state for a verb that holds the process's lock, so that no other verb moves the
   * process. If a call was abandoned nevertheless, this does not wait for it but makes a new call,
   * of which a few may hang.
   *
   * @throws TimeoutException if the driver does not return within the bound
   */
  public static CudaAnswer<ProcessState> readUntilAnswered(
      CudaDriver driver, int pid, Duration bound) throws TimeoutException {
    Subject subject = new Subject(driver, pid);
    Line line = LINES.get(subject);
    if (line != null && line.current().isLeft() && !BoundedCall.isFull(subject)) {
      return BoundedCall.run(
          subject, line.current().name, bound, () -> driver.getState(pid), (late, failed) -> {});
    }
    return ask(driver, pid).await(bound);
  }

  /**
   * Returns whether no driver operation is under way on a process, so that the driver returns at
   * once.
   */
  public static boolean isIdle(CudaDriver driver, int pid) {
    try {
      CudaAnswer<ProcessState> unused = ask(driver, pid).await(AT_ONCE);
      return true;
    } catch (TimeoutException e) {
      return false;
    }
  }

  private static Line joined(@Nullable Line found, int pid) {
    if (found == null) {
      return new Line(new StateReading(pid), null);
    }
    return found.next() == null ? new Line(found.current(), new StateReading(pid)) : found;
  }

  private static void serve(Subject subject, StateReading first) {
    Thread.currentThread().setName("gpuprocess " + first.name);
    try {
      for (StateReading each = first; each != null; each = after(subject)) {
        each.call(subject);
      }
    } finally {
      Thread.currentThread().setName("gpuprocess idle");
    }
  }

  /** Returns the next call to make; null if no caller waits for one. */
  private static @Nullable StateReading after(Subject subject) {
    Line line =
        LINES.computeIfPresent(
            subject, (of, found) -> found.next() == null ? null : new Line(found.next(), null));
    return line == null ? null : line.current();
  }

  private void call(Subject subject) {
    try {
      answer.complete(subject.driver().getState(subject.pid()));
    } catch (Throwable e) {
      answer.completeExceptionally(e);
    }
    returned();
  }

  /**
   * Waits for the result, and abandons the call at the bound. An interrupt does not shorten the
   * wait; the thread's flag stays set.
   *
   * @throws TimeoutException if the driver does not return within the bound
   */
  public CudaAnswer<ProcessState> await(Duration bound) throws TimeoutException {
    try {
      return awaitFirst(bound);
    } catch (TimeoutException e) {
      leave();
      throw e;
    }
  }

  /** Does the same without abandoning the call: the caller waits for the result again. */
  public CudaAnswer<ProcessState> awaitFirst(Duration bound) throws TimeoutException {
    return BoundedCall.await(answer, Deadline.after(bound));
  }

  /** Marks the call as abandoned by its caller. */
  private synchronized void leave() {
    if (!left && !answer.isDone()) {
      left = true;
      event = AbandonedCallEvent.begun(name);
    }
  }

  private synchronized boolean isLeft() {
    return left && !answer.isDone();
  }

  private synchronized void returned() {
    if (event != null) { // else the class of the event, and Flight Recorder's, would be loaded
      event.commit();
    }
  }
}
