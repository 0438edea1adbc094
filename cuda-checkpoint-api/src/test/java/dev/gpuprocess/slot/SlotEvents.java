package dev.gpuprocess.slot;

import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.slot.SlotEvent.Kind;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** The events of a slot, for tests that wait for them. */
public final class SlotEvents implements Consumer<SlotEvent> {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final List<SlotEvent> all = new CopyOnWriteArrayList<>();

  @Override
  public void accept(SlotEvent event) {
    all.add(event);
  }

  /** Returns the events of some kinds, as words. */
  public List<String> of(Kind... kinds) {
    List<Kind> wanted = List.of(kinds);
    return all.stream()
        .filter(each -> wanted.contains(each.kind()))
        .map(each -> each.kind() + " " + each.process().pid())
        .toList();
  }

  /** Returns the events of some kinds of one process. */
  public long count(Kind kind, long pid) {
    return all.stream().filter(each -> each.kind() == kind && each.process().pid() == pid).count();
  }

  /** Waits until there have been so many. */
  public void await(Kind kind, long pid, int count) {
    await(events -> count(kind, pid) >= count);
  }

  /** Waits for a condition. */
  public void await(Predicate<SlotEvents> condition) {
    assertTrue(Polling.until(PATIENCE, () -> condition.test(this)), all::toString);
  }

  @Override
  public String toString() {
    return all.toString();
  }
}
