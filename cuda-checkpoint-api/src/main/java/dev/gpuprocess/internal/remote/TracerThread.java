package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.internal.time.Threads;
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
 * A thread of this JVM that traces. The kernel accepts requests only from the thread that seized a
 * task, and detaches all tasks of a thread that ends. So tracing ends with this thread, however the
 * work fails.
 */
final class TracerThread {

  /** A busy machine may take this long. */
  private static final Duration ENDING = Duration.ofSeconds(30);

  private TracerThread() {}

  /** Runs work to its end. An interrupt of the caller does not end the wait. */
  static <T> T run(int pid, Supplier<Ptrace> requests, RemoteWork<Ptrace, T> work)
      throws UntraceableException, IOException {
    CompletableFuture<Path> self = new CompletableFuture<>();
    FutureTask<T> task =
        new FutureTask<>(
            () -> {
              self.complete(ProcFs.kernel("thread-self").toRealPath());
              return work.with(requests.get());
            });
    Threads.daemon("gpuprocess tracer of " + pid, task).start();
    try {
      return Uninterrupted.until(Deadline.never(), left -> task.get());
    } catch (ExecutionException e) {
      throw translated(pid, Objects.requireNonNull(e.getCause()));
    } finally {
      awaitEnd(self);
    }
  }

  /**
   * Waits until the kernel has ended the thread, which is after its end in Java: until then, tasks
   * that were not detached are traced. The next tracer of the process must not find them so.
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
              Reason.GONE,
              "process %s, or its borrowed thread, has ended (%s)".formatted(pid, e.getMessage()));
      gone.initCause(e);
      throw gone;
    }
    if (cause instanceof ProcessUnreadableException e) {
      UntraceableException hidden =
          new UntraceableException(
              e.getCause() instanceof AccessDeniedException
                  ? Reason.NOT_PERMITTED
                  : Reason.NO_THREAD, // for the moment, as when no descriptor is left
              "process %s cannot be read: %s".formatted(pid, e.getMessage()));
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
