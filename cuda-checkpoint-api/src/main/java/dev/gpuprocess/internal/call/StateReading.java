package dev.gpuprocess.internal.call;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * A call that reads the state of a process. The driver answers only when the checkpoint, restore or
 * lock under way has ended. So for each process and driver at most one call is under way; callers
 * that arrive in the meantime share the next one, because the current call may already have an
 * answer from before they asked. Safe for use by several threads.
 *
 * <p>A call that all its callers have abandoned remains the only one, so it counts as abandoned but
 * is no reason to refuse operations.
 */
public final class StateReading {

  private static final Duration AT_ONCE = Duration.ofMillis(500);

  private record Subject(CudaDriver driver, int pid) {

    @Override
    public String toString() {
      return "the state of process " + pid;
    }
  }

  /** The call that is under way, and the next one if somebody waits for it. */
  private record Line(StateReading current, @Nullable StateReading next) {}

  private static final Map<Subject, Line> LINES = new ConcurrentHashMap<>();

  private final CompletableFuture<CudaAnswer<ProcessState>> answer = new CompletableFuture<>();
  private final String name;
  private @Nullable Abandonment left;

  private StateReading(int pid) {
    name = "getState " + pid;
  }

  /** How many calls are under way that a caller gave up waiting for. */
  public static int leftBehind() {
    return (int) LINES.values().stream().filter(line -> line.current().isLeft()).count();
  }

  /** Whether a call about this process is under way that a caller gave up waiting for. */
  public static boolean isLeftBehind(CudaDriver driver, int pid) {
    Line line = LINES.get(new Subject(driver, pid));
    return line != null && line.current().isLeft();
  }

  /** Asks. The answer is never older than this call. */
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
   * Asks on behalf of a verb that holds the process's lock, so that nobody should be moving the
   * process. If a call was abandoned nevertheless, this does not wait for it but makes its own, of
   * which a few may hang.
   *
   * @throws TimeoutException when there is no answer within the bound
   */
  public static CudaAnswer<ProcessState> insist(CudaDriver driver, int pid, Duration bound)
      throws TimeoutException {
    Subject subject = new Subject(driver, pid);
    Line line = LINES.get(subject);
    if (line != null && line.current().isLeft() && !BoundedCall.isFull(subject)) {
      return BoundedCall.run(
          subject, line.current().name, bound, () -> driver.getState(pid), (late, failed) -> {});
    }
    StateReading reading = ask(driver, pid);
    try {
      return reading.await(bound);
    } catch (TimeoutException e) {
      reading.leave();
      throw e;
    }
  }

  /**
   * Tells whether no driver operation is under way on a process: the driver answers at once then.
   */
  public static boolean isIdle(CudaDriver driver, int pid) {
    StateReading reading = ask(driver, pid);
    try {
      reading.await(AT_ONCE);
      return true;
    } catch (TimeoutException e) {
      reading.leave();
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

  /** The next call to make; null when nobody waits for one. */
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
   * Waits for the answer. An interrupt does not shorten the wait; the thread's flag stays set. May
   * be called again.
   *
   * @throws TimeoutException when there is none within the bound
   */
  public CudaAnswer<ProcessState> await(Duration bound) throws TimeoutException {
    return BoundedCall.await(answer, Durations.end(bound));
  }

  /** Marks the call as abandoned: the caller no longer waits for it. */
  public synchronized void leave() {
    if (left == null && !answer.isDone()) {
      left = new Abandonment(name);
      left.begin();
    }
  }

  private synchronized boolean isLeft() {
    return left != null && !answer.isDone();
  }

  private synchronized void returned() {
    if (left != null) {
      left.end();
    }
  }
}
