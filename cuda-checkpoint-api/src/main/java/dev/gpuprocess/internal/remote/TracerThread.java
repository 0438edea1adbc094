package dev.gpuprocess.internal.remote;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.Supplier;

/**
 * A thread of this JVM for one tracing session. The kernel takes requests from the thread that
 * seized a task only, and lets go of what a thread has seized when the thread ends: however a
 * session fails, it is over with its thread.
 */
final class TracerThread {

  /** What is done in it. */
  interface Session<T> {
    T trace(Ptrace ptrace) throws UntraceableException, IOException;
  }

  /** A machine with much to do takes that long now and then. */
  private static final Duration ENDING = Duration.ofSeconds(30);

  private TracerThread() {}

  /** Runs a session to its end, however often the caller is interrupted meanwhile. */
  static <T> T run(int pid, Supplier<Ptrace> requests, Session<T> session)
      throws UntraceableException, IOException {
    CompletableFuture<Path> self = new CompletableFuture<>();
    FutureTask<T> task =
        new FutureTask<>(
            () -> {
              self.complete(ProcFs.kernel("thread-self").toRealPath());
              return session.trace(requests.get());
            });
    Thread thread = new Thread(task, "gpuprocess tracer of " + pid);
    thread.setDaemon(true);
    thread.start();
    try {
      return Uninterrupted.until(Durations.end(Durations.LONGEST), left -> task.get());
    } catch (ExecutionException e) {
      throw translated(pid, Objects.requireNonNull(e.getCause()));
    } finally {
      awaitEnd(self);
    }
  }

  /**
   * What was seized and not let go is traced until the kernel has ended the thread, which is after
   * it has ended for Java. Who looks at the process next must not find it traced.
   */
  private static void awaitEnd(CompletableFuture<Path> self) {
    try (Polling polling = new Polling(ENDING)) {
      boolean inTime = self.isDone();
      while (inTime && Files.exists(self.join())) {
        inTime = polling.pause();
      }
    }
  }

  private static IOException translated(int pid, Throwable cause) throws UntraceableException {
    if (cause instanceof NativeCallException e && e.isGone()) {
      UntraceableException gone =
          new UntraceableException(
              Untraceable.Reason.GONE,
              "process %s, or the thread of it that was borrowed, has ended (%s)"
                  .formatted(pid, e.getMessage()));
      gone.initCause(e);
      throw gone;
    }
    if (cause instanceof ProcessUnreadableException e) {
      UntraceableException hidden =
          new UntraceableException(
              e.getCause() instanceof AccessDeniedException
                  ? Untraceable.Reason.NOT_PERMITTED
                  : Untraceable.Reason.NO_THREAD, // such as no descriptor left: for the moment
              "process %s cannot be looked at: %s".formatted(pid, e.getMessage()));
      hidden.initCause(e);
      throw hidden;
    }
    if (cause instanceof UntraceableException e) {
      throw e;
    }
    if (cause instanceof IOException e) {
      return e;
    }
    if (cause instanceof RuntimeException e) {
      throw e;
    }
    throw (Error) cause;
  }
}
