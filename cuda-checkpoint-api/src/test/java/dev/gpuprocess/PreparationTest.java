package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class PreparationTest {

  private static Runnable failing(Throwable why) {
    return () -> {
      if (why instanceof Error error) {
        throw error;
      }
      throw (RuntimeException) why;
    };
  }

  /** A directory that cannot be removed does not hide why nothing could be dumped into it. */
  @Test
  void firstFailureIsTheReason() {
    RuntimeException dump = new IllegalStateException("no CRIU");
    Error removal = new AssertionError("/tmp");
    assertSame(
        dump,
        assertThrows(
            RuntimeException.class, () -> Preparation.thenAlways(failing(dump), failing(removal))));
    assertArrayEquals(new Throwable[] {removal}, dump.getSuppressed());
    assertSame(
        removal,
        assertThrows(Error.class, () -> Preparation.thenAlways(() -> {}, failing(removal))));
  }
}
