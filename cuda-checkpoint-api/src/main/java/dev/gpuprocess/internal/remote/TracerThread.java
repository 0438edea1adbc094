package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.call.BoundedCall;
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
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A thread of this JVM that traces. The kernel accepts requests only from the thread that seized a
 * task, and detaches all tasks of a thread that ends. So tracing ends with this thread, however the
 * work fails.
 */
final class TracerThread {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** A busy machine may take this long. */
  private static final Duration ENDING = Duration.ofSeconds(30);

  /** The subject of abandoned calls. */
  private record Traced(int pid) {

    @Override
    public String toString() {
      return "the threads of process " + pid;
    }
  }

  private TracerThread() {}

  /**
   * Runs work to its end. An interrupt of the caller does not end the wait. Work whose own deadline
   * passed long ago is held in the kernel by a page of the process: it is abandoned.
   *
   * @param deadline of the work
   */
  static <T> T run(
      int pid, Deadline deadline, Supplier<Ptrace> requests, RemoteWork<Ptrace, T> work)
      throws UntraceableException, IOException {
    boolean ended = true;
    CompletableFuture<Path> self = new CompletableFuture<>();
    FutureTask<T> task =
        new FutureTask<>(
            () -> {
              self.complete(ProcFs.kernel("thread-self").toRealPath());
              return work.with(requests.get());
            });
    CompletableFuture<Boolean> done = new CompletableFuture<>();
    Threads.daemon(
            "gpuprocess tracer of " + pid,
            () -> {
              task.run();
              done.complete(true);
            })
        .start();
    try {
      boolean unused =
          BoundedCall.run(
              new Traced(pid),
              "waits for tracer of " + pid,
              deadline.remaining().plus(ENDING),
              done::join,
              (value, failure) -> LOG.info("process {}: its tracer ended late", pid, failure));
      return Uninterrupted.until(Deadline.never(), left -> task.get());
    } catch (ExecutionException e) {
      throw translated(pid, Objects.requireNonNull(e.getCause()));
    } catch (TimeoutException e) {
      ended = false;
      throw new UntraceableException(
          Reason.TIME,
          "process %s holds the thread that traces it: a page of its memory does not arrive"
              .formatted(pid));
    } finally {
      if (ended) {
        awaitEnd(self);
      }
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
