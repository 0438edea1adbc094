package dev.gpuprocess.options;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.options.RetentionPolicy.OnePer;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import org.junit.jupiter.api.Test;

class RetentionPolicyTest {

  private static final Duration HOUR = Duration.ofHours(1);
  private static final Duration DAY = Duration.ofDays(1);

  @Test
  void isAValue() {
    RetentionPolicy policy = RetentionPolicy.builder().keepLast(2).keepOnePer(HOUR, DAY).build();
    assertEquals(List.of(new OnePer(HOUR, DAY)), policy.intervals());
    assertEquals(2, policy.keepLast());
    assertEquals(policy, policy.toBuilder().build());
    assertEquals(policy.hashCode(), policy.toBuilder().build().hashCode());
    assertNotEquals(policy, policy.toBuilder().keepLast(3).build());
    assertNotEquals(policy, policy.toBuilder().keepOnePer(DAY, DAY.multipliedBy(7)).build());
    assertEquals(3, RetentionPolicy.ofDefaults().keepLast());
  }

  @Test
  void refusesWhatWouldKeepNothing() {
    RetentionPolicy.Builder builder = RetentionPolicy.builder();
    assertThrows(IllegalArgumentException.class, () -> builder.keepLast(0));
    assertThrows(IllegalArgumentException.class, () -> builder.keepOnePer(Duration.ZERO, DAY));
    assertThrows(
        IllegalArgumentException.class, () -> builder.keepOnePer(Duration.ofMillis(1500), DAY));
    assertThrows(IllegalArgumentException.class, () -> builder.keepOnePer(HOUR, Duration.ZERO));
    assertEquals(
        ChronoUnit.FOREVER.getDuration(),
        builder
            .keepOnePer(HOUR, ChronoUnit.FOREVER.getDuration())
            .build()
            .intervals()
            .get(0)
            .span());
  }
}
