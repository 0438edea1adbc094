package dev.gpuprocess.internal.call;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.NativeCalls;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.OperationInProgressException;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Calls that outlive their deadline. */
@Tag("jdk")
class BoundedCallTest {

  private static final int MANY = 70;
  private static final Duration HASTE = Duration.ofMillis(1);

  @BeforeEach
  void awaitEarlierTests() {
    NativeCalls.awaitNoneLeftBehind();
  }

  @Test
  @OutsideUse("D2")
  void admit_asManyHangAboutOneAsAreAllowed_refusedThereAloneUntilTheyReturn() throws Exception {
    CountDownLatch end = new CountDownLatch(1);
    AtomicInteger late = new AtomicInteger();
    for (int i = 0; i < BoundedCall.MAX_ABANDONED_ABOUT_ONE; i++) {
      BoundedCall.requireCapacity("one", "a test");
      hang("one", end, late);
    }
    assertEquals(BoundedCall.MAX_ABANDONED_ABOUT_ONE, GpuCheckpoints.abandonedCalls());
    OperationInProgressException refused =
        assertThrows(
            OperationInProgressException.class,
            () -> BoundedCall.requireCapacity("one", "one more"));
    assertTrue(refused.getMessage().contains("4 calls about one hang"), refused.getMessage());
    BoundedCall.requireCapacity("another", "a test");
    end.countDown();
    await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    assertEquals(
        BoundedCall.MAX_ABANDONED_ABOUT_ONE, late.get(), "they count until they are undone");
    BoundedCall.requireCapacity("one", "a test");
  }

  @Test
  @OutsideUse("D2")
  void run_manyCallsHangAboutOthers_goesThrough() throws Exception {
    CountDownLatch end = new CountDownLatch(1);
    AtomicInteger late = new AtomicInteger();
    for (int i = 0; i < MANY; i++) {
      hang("resource " + i, end, late);
    }
    BoundedCall.requireCapacity("mine", "a test");
    assertEquals(
        7, BoundedCall.run("mine", "test", Duration.ofSeconds(20), () -> 7, (value, e) -> {}));
    end.countDown();
    await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    assertEquals(MANY, late.get());
  }

  private static void hang(String about, CountDownLatch end, AtomicInteger late) {
    assertThrows(
        TimeoutException.class,
        () ->
            BoundedCall.run(
                about, "test", HASTE, () -> awaited(end), (value, e) -> late.addAndGet(value)));
  }

  @Test
  void run_interrupted_waitsForTheAnswerAndStaysInterrupted() throws Exception {
    Thread.currentThread().interrupt();
    assertEquals(
        7, BoundedCall.run("one", "test", Duration.ofSeconds(20), () -> 7, (value, e) -> {}));
    assertTrue(Thread.interrupted());
  }

  private static int awaited(CountDownLatch end) {
    try {
      end.await();
      return 1;
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
