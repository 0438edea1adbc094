package dev.gpuprocess.criu;

import static org.awaitility.Awaitility.await;

import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.SnapshotListener;
import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.report.SkippedSnapshot;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Predicate;

/** Records the calls of a snapshot listener, in order. */
public class ToldSnapshots implements SnapshotListener {

  private static final Duration PATIENCE = Duration.ofSeconds(50);

  public final List<ProcessImage> made = new CopyOnWriteArrayList<>();
  public final List<Throwable> failed = new CopyOnWriteArrayList<>();
  public final List<SkippedSnapshot> skipped = new CopyOnWriteArrayList<>();
  public final List<PruneReport> pruned = new CopyOnWriteArrayList<>();
  public final List<Throwable> pruneFailed = new CopyOnWriteArrayList<>();
  public final List<Boolean> ended = new CopyOnWriteArrayList<>();

  @Override
  public void made(ProcessImage image) {
    made.add(image);
  }

  @Override
  public void failed(Throwable why) {
    failed.add(why);
  }

  @Override
  public void skipped(SkippedSnapshot why) {
    skipped.add(why);
  }

  @Override
  public void pruned(PruneReport report) {
    pruned.add(report);
  }

  @Override
  public void pruneFailed(Throwable why) {
    pruneFailed.add(why);
  }

  @Override
  public void ended(boolean closed) {
    ended.add(closed);
  }

  /** Waits for so many more images. */
  public void awaitMade(int more) {
    int wanted = made.size() + more;
    await().atMost(PATIENCE.multipliedBy(more)).until(() -> made.size() >= wanted);
  }

  /** Waits for a failure, and returns the last one. */
  public Throwable awaitFailed() {
    await().atMost(PATIENCE).until(() -> !failed.isEmpty());
    return failed.get(failed.size() - 1);
  }

  /** Waits for a snapshot that is skipped from now on. */
  public void awaitSkipped(SkippedSnapshot.Reason reason) {
    Predicate<SkippedSnapshot> isOne = each -> each.reason() == reason;
    long before = skipped.stream().filter(isOne).count();
    await().atMost(PATIENCE).until(() -> skipped.stream().filter(isOne).count() > before);
  }

  public void awaitEnded() {
    await().atMost(PATIENCE).until(() -> !ended.isEmpty());
  }
}
