package dev.gpuprocess.internal.call;

import java.util.Arrays;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The frames of a caller, below those of a throwable that was made on a thread of the library: an
 * operator looks for the line of the program that called.
 */
public final class CallerFrames {

  private static final String THREAD = "called by thread";

  private CallerFrames() {}

  /** Adds the frames of this thread to a throwable of another one, once. */
  public static void addTo(@Nullable Throwable thrown) {
    if (thrown == null) {
      return;
    }
    Thread caller = Thread.currentThread();
    StackTraceElement mark = new StackTraceElement(THREAD, caller.getName(), null, -1);
    StackTraceElement[] own = thrown.getStackTrace();
    if (Arrays.asList(own).contains(mark)) {
      return;
    }
    // Without getStackTrace and this method.
    Stream<StackTraceElement> frames = Arrays.stream(caller.getStackTrace()).skip(2);
    thrown.setStackTrace(
        Stream.of(Arrays.stream(own), Stream.of(mark), frames)
            .flatMap(each -> each)
            .toArray(StackTraceElement[]::new));
  }
}
