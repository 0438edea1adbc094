package dev.gpuprocess.contract;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.error.GpuCheckpointException;
import org.junit.jupiter.api.function.Executable;

/** Assertions on the type and the reason of an exception. */
public final class AssertReason {

  private AssertReason() {}

  /**
   * Asserts that an operation fails with an exception of a type and a reason.
   *
   * @return the exception
   */
  public static <T extends GpuCheckpointException> T assertReason(
      Class<T> type, GpuCheckpointException.Reason reason, Executable operation) {
    return assertReason(type, reason, operation, "");
  }

  /**
   * Asserts that an operation fails with an exception of a type and a reason.
   *
   * @param message the beginning of the message if the assertion fails
   * @return the exception
   */
  public static <T extends GpuCheckpointException> T assertReason(
      Class<T> type, GpuCheckpointException.Reason reason, Executable operation, String message) {
    T thrown = assertThrows(type, operation, message);
    assertEquals(reason, thrown.reason(), () -> message + thrown.getMessage());
    return thrown;
  }

  /**
   * Asserts that what was thrown has a type and a reason.
   *
   * @return the exception
   */
  public static <T extends GpuCheckpointException> T assertReason(
      Class<T> type, GpuCheckpointException.Reason reason, Object thrown) {
    T exception = assertInstanceOf(type, thrown);
    assertEquals(reason, exception.reason(), exception::getMessage);
    return exception;
  }
}
