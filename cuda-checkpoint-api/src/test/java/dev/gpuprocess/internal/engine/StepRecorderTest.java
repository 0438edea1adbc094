package dev.gpuprocess.internal.engine;

import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.mockito.ArgumentMatchers.argThat;
import static org.mockito.ArgumentMatchers.eq;
import static org.mockito.Mockito.inOrder;
import static org.mockito.Mockito.mock;

import dev.gpuprocess.report.StepListener;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.mockito.InOrder;

class StepRecorderTest {

  @Test
  void listenerIsNotifiedOfTheEndOfAStepThatThrowsAnError() {
    StepListener listener = mock(StepListener.class);
    Error error = new StackOverflowError("of a step");
    StepRecorder recorder = new StepRecorder(listener, 7, List.of());
    Runnable step =
        () -> {
          throw error;
        };
    assertSame(error, assertThrows(Error.class, () -> recorder.run("lock", 0, step)));
    InOrder order = inOrder(listener);
    order.verify(listener).started("lock", 7);
    order.verify(listener).failed(eq("lock"), eq(7), argThat(why -> why.getCause() == error));
    order.verifyNoMoreInteractions();
  }
}
