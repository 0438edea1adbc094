package dev.gpuprocess.internal.populate;

import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.trace.BorrowedThread;
import dev.gpuprocess.internal.trace.MappingTrap;
import dev.gpuprocess.internal.trace.RemoteCallException;
import dev.gpuprocess.internal.trace.RemoteThreads;
import dev.gpuprocess.internal.trace.RestoreThread;
import dev.gpuprocess.internal.trace.SystemCall;
import dev.gpuprocess.internal.trace.UntraceableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has the memory that a checkpoint fills populated ahead of the driver.
 *
 * <p>The driver's restore thread maps the memory for all that is on the GPU by one call, which
 * populates it by one thread in small pages, and then copies. Here that call is made without
 * populating, huge pages are asked for, and several threads started in the process populate while
 * the driver copies already. Nothing else changes, no more memory is taken, and if this JVM is
 * killed at any moment the checkpoint goes on. Where that is not possible the driver populates, as
 * it always did.
 */
public final class PopulateAhead {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** A checkpoint of less is over in a moment. */
  public static final long LEAST_BYTES = 128L << 20;

  /** How long the checkpoint waits for the restore thread to be watched. */
  private static final Duration ARMING = Duration.ofSeconds(1);

  private static final int MADV_HUGEPAGE = 14;
  private static final int MADV_POPULATE_WRITE = 23;

  private final ProcessIdentity process;
  private final CompletableFuture<Void> armed = new CompletableFuture<>();
  private final List<AddressRange> mapped = new CopyOnWriteArrayList<>();
  private volatile boolean over;

  private PopulateAhead(ProcessIdentity process) {
    this.process = process;
  }

  /**
   * Runs a checkpoint, helped if that is possible.
   *
   * @param checkpoint the driver's call, on this thread
   * @param mapped called with the memory that the driver's restore thread mapped for the
   *     checkpoint, as far as that was observed and the checkpoint is not abandoned
   * @return what was done, or why nothing was, for an operator
   */
  public static String during(
      ProcessIdentity process, Runnable checkpoint, Consumer<List<AddressRange>> mapped) {
    PopulateAhead ahead = new PopulateAhead(process);
    CompletableFuture<Optional<RemoteThreads>> watch =
        CompletableFuture.supplyAsync(ahead::watch, BoundedCall.THREADS);
    boolean answered = true;
    String note = "";
    try {
      ahead.awaitArmed();
      checkpoint.run();
    } catch (OperationTimedOutException e) {
      answered = false; // nothing can be tidied in a process that hangs
      throw e;
    } finally {
      ahead.over = true;
      if (answered) {
        note = ahead.outcome(watch);
        mapped.accept(ahead.mapped);
      }
    }
    return note;
  }

  private void awaitArmed() {
    CompletableFuture<Void> soon =
        armed.copy().completeOnTimeout(null, ARMING.toMillis(), TimeUnit.MILLISECONDS);
    soon.join();
  }

  private Optional<RemoteThreads> watch() {
    try {
      int task = RestoreThread.of(process);
      return new MappingTrap(process, task, LEAST_BYTES, mapped::add)
          .await(() -> armed.complete(null), () -> over, this::populate);
    } catch (UntraceableException | IOException e) {
      throw new CompletionException(e);
    } finally {
      armed.complete(null);
    }
  }

  private RemoteThreads populate(BorrowedThread thread, AddressRange memory)
      throws UntraceableException, IOException {
    // Smaller mappings before this one are no save area.
    mapped.clear();
    mapped.add(memory);
    try {
      thread.call(SystemCall.MADVISE, memory.start(), memory.bytes(), MADV_HUGEPAGE);
    } catch (RemoteCallException e) {
      LOG.debug("the kernel has no huge pages for process {}", thread.pid(), e);
    }
    return Populators.start(thread, List.of(memory), MADV_POPULATE_WRITE);
  }

  private String outcome(CompletableFuture<Optional<RemoteThreads>> watch) {
    try {
      Optional<RemoteThreads> threads = watch.join();
      // The driver copies slower than they populate.
      threads.ifPresent(started -> Populators.tidy(process, started));
      return threads
          .map(started -> "populated ahead by %s threads".formatted(started.started()))
          .orElse("not populated ahead: the driver made no mapping of 128 MiB or more");
    } catch (CompletionException e) {
      LOG.info("process {}: not populated ahead", process.pid(), e);
      Throwable why = e.getCause() == null ? e : e.getCause();
      return "not populated ahead: " + why.getMessage();
    }
  }
}
