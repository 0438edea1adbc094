package dev.gpuprocess.internal.linux;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LeftoversTest {

  @TempDir Path place;
  private final AtomicBoolean writable = new AtomicBoolean();
  private final List<String> removed = new CopyOnWriteArrayList<>();

  private void remove(String name) throws IOException {
    if (!writable.get()) {
      throw new IOException("read-only");
    }
    removed.add(name);
  }

  private void leave(String name) {
    Leftovers.add(place.resolve(name), () -> remove(name));
  }

  private boolean isClear() {
    return !Leftovers.places().contains(place);
  }

  @Test
  void aLaterRemovalFollowsTheLastDirectory() {
    leave("one");
    Leftovers.add(place.resolve("other"), () -> removed.add("other"));
    Leftovers.removeAfter(place, "entry", () -> removed.add("entry"));
    Leftovers.removeIn(place);
    assertEquals(List.of("other"), removed);
    assertTrue(Leftovers.contain(place.resolve("one")));
    assertFalse(Leftovers.contain(place.resolve("other")));
    writable.set(true);
    await().atMost(30, SECONDS).until(this::isClear);
    assertEquals(List.of("other", "one", "entry"), removed);
  }

  @Test
  void aPlaceWithoutLeftoversIsForgotten() {
    Leftovers.removeAfter(place, "entry", () -> removed.add("entry"));
    assertEquals(List.of("entry"), removed);
    assertTrue(isClear());
  }

  @Test
  void aLaterRemovalIsRetriedToo() {
    Leftovers.removeAfter(place, "entry", () -> remove("entry"));
    Leftovers.removeIn(place);
    assertEquals(List.of(), removed);
    writable.set(true);
    await().atMost(30, SECONDS).until(this::isClear);
    assertEquals(List.of("entry"), removed);
  }

  @Test
  void aPlaceIsFoundByAnotherPath() throws IOException {
    Path one = Files.createDirectory(place.resolve("one"));
    writable.set(true);
    leave("one");
    Leftovers.removeIn(one.resolve(".."));
    assertEquals(List.of("one"), removed);
  }

  @Test
  void aHungDiskDelaysNoOtherPlace(@TempDir Path hanging) throws InterruptedException {
    CountDownLatch hangs = new CountDownLatch(1);
    CountDownLatch answers = new CountDownLatch(1);
    Leftovers.add(
        hanging.resolve("half"),
        () -> {
          hangs.countDown();
          awaitUninterruptibly(answers);
        });
    try {
      hangs.await();
      // Added while its removal hangs.
      Leftovers.add(hanging.resolve("other"), () -> removed.add("late"));
      Leftovers.removeAfter(hanging, "entry", () -> removed.add("last"));
      writable.set(true);
      leave("one");
      await().atMost(30, SECONDS).until(this::isClear);
      assertEquals(List.of("one"), removed);
    } finally {
      answers.countDown();
    }
    await().atMost(30, SECONDS).until(() -> !Leftovers.places().contains(hanging));
    assertEquals(List.of("one", "late", "last"), removed);
  }

  private static void awaitUninterruptibly(CountDownLatch latch) throws IOException {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IOException(e);
    }
  }
}
