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
 * The question for a process's state. The driver answers it only when the checkpoint, restore or
 * lock that is under way has ended, which takes as long as it takes. So however many ask, one call
 * is under way for each process and driver; whoever comes meanwhile shares the next one, since the
 * one that is out may have its answer already, from before they asked.
 *
 * <p>A call that all who asked have left stays alone, so it counts among the abandoned ones but is
 * no reason to refuse anything.
 */
public final class StateReading {

  private static final Duration AT_ONCE = Duration.ofMillis(500);

  private record Subject(CudaDriver driver, int pid) {

    @Override
    public String toString() {
      return "the state of process " + pid;
    }
  }

  /** The call that is out, and the question after it if somebody has one. */
  private record Line(StateReading current, @Nullable StateReading next) {}

  private static final Map<Subject, Line> LINES = new ConcurrentHashMap<>();

  private final CompletableFuture<CudaAnswer<ProcessState>> answer = new CompletableFuture<>();
  private final String name;
  private @Nullable AbandonedCallEvent left;

  private StateReading(int pid) {
    name = "getState " + pid;
  }

  /** How many calls are out that somebody gave up waiting for. */
  public static int leftBehind() {
    return (int) LINES.values().stream().filter(line -> line.current().isLeft()).count();
  }

  /** Asks. The answer is never older than this. */
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
   * Asks for a verb whose turn it is, so that nobody should be moving the process: where a call was
   * left behind all the same it does not wait for that one, but makes its own. A few of these may
   * hang.
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

  /** Tells whether no verb is under way at a process, which the driver answers at once then. */
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

  /** The question that has its turn now; null when nobody has one. */
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
   * Waits for the answer. An interrupt does not shorten the wait; the flag stays set. May be called
   * again.
   *
   * @throws TimeoutException when there is none within the bound
   */
  public CudaAnswer<ProcessState> await(Duration bound) throws TimeoutException {
    return BoundedCall.await(answer, Durations.end(bound));
  }

  /** Nobody who asked may need the answer any more: the call is told to be left behind. */
  public synchronized void leave() {
    if (left == null && !answer.isDone()) {
      left = new AbandonedCallEvent(name);
      left.begin();
    }
  }

  private synchronized boolean isLeft() {
    return left != null && !answer.isDone();
  }

  private synchronized void returned() {
    if (left != null) {
      left.commit();
    }
  }
}
