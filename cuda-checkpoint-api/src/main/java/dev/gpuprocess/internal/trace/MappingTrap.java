package dev.gpuprocess.internal.trace;

import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.os.Ptrace;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.trace.Registers.Name;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Waits until a thread of another process maps much private memory and populates it by the same
 * call ({@code MAP_POPULATE}). The call is made without populating, so that the memory can be had
 * as huge pages and be populated by several threads. The thread finds its memory mapped, as it
 * asked; it populates what it touches first, and if this JVM is killed at any moment it populates
 * all.
 */
public final class MappingTrap {

  private static final Logger LOG = LoggerFactory.getLogger(MappingTrap.class);

  /** What is done when the memory is mapped, before the thread goes on. */
  @FunctionalInterface
  public interface Work<T> {

    /**
     * Makes calls.
     *
     * @param thread the thread that has mapped it
     * @param memory where it is
     */
    T with(BorrowedThread thread, AddressRange memory) throws UntraceableException, IOException;
  }

  private static final Duration CALLS = Duration.ofSeconds(5);
  private static final Duration STOPPING = Duration.ofMillis(500);

  private static final int PAGE = 4096;
  private static final int PROT_WRITE = 2;
  private static final int MAP_PRIVATE = 2;
  private static final int MAP_ANONYMOUS = 0x20;
  private static final int MAP_POPULATE = 0x8000;
  private static final int WANTED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;

  private final ProcessIdentity process;
  private final int task;
  private final long least;
  private final Consumer<AddressRange> smaller;

  /**
   * Prepares; nothing is done yet.
   *
   * @param task a thread of the process
   * @param least how many bytes are much
   * @param smaller called with each smaller mapping that the thread populates; such calls are not
   *     changed
   */
  public MappingTrap(
      ProcessIdentity process, int task, long least, Consumer<AddressRange> smaller) {
    this.process = process;
    this.task = task;
    this.least = least;
    this.smaller = smaller;
  }

  /**
   * Waits for one such call.
   *
   * @param armed run when the thread is being watched
   * @param over tells that the call will not come any more
   * @param work what is done then
   * @return what the work returned; empty when the call did not come
   * @throws UntraceableException when the thread cannot be watched; nothing has happened to it
   * @throws IOException what the work throws
   */
  public <T> Optional<T> await(Runnable armed, BooleanSupplier over, Work<T> work)
      throws UntraceableException, IOException {
    Suitability.check(process);
    Landscape land = Landscape.of(process);
    return TracerThread.run(
        process.pid(), Ptrace::new, ptrace -> watched(ptrace, land, armed, over, work));
  }

  private <T> Optional<T> watched(
      Ptrace ptrace, Landscape land, Runnable armed, BooleanSupplier over, Work<T> work)
      throws UntraceableException, IOException {
    Tracee thread = Tracee.seize(ptrace, process, task);
    try {
      Rehearsal.of(thread, land);
      thread.beginInterrupt();
      if (thread.awaitTrap(Durations.end(STOPPING)) == Tracee.Stop.GROUP) {
        throw Suitability.stopped(process);
      }
      armed.run();
      Optional<AddressRange> mapped = awaitMapping(thread, over);
      return mapped.isPresent()
          ? Optional.of(work(thread, land, work, mapped.get()))
          : Optional.empty();
    } finally {
      letGo(thread);
    }
  }

  /** The thread that traces would let go when it ends, but that may be after the next verb. */
  private static void letGo(Tracee thread) {
    try {
      thread.beginInterrupt();
      Tracee.Stop unused = thread.awaitTrap(Durations.end(STOPPING));
      thread.detach();
    } catch (UntraceableException | NativeCallException e) {
      LOG.debug("thread {} is let go when its tracer ends", thread.task(), e);
    }
  }

  /** What was mapped; empty when nothing was. */
  private Optional<AddressRange> awaitMapping(Tracee thread, BooleanSupplier over)
      throws UntraceableException, NativeCallException {
    while (thread.toSystemCall(over)) { // it is about to make a call
      Registers asked = thread.registers();
      boolean populates = populatesMemory(asked);
      boolean caught = populates && Long.compareUnsigned(asked.get(Name.RSI), least) >= 0;
      if (caught) {
        long flags = asked.get(Name.R10) & ~MAP_POPULATE;
        thread.setRegisters(asked.with(Name.R10, flags));
      }
      if (!thread.toSystemCall(over)) { // the call has ended
        return Optional.empty();
      }
      if (populates) {
        Registers answered = thread.registers();
        if (caught) {
          // Calls keep their arguments.
          thread.setRegisters(answered.with(Name.R10, asked.get(Name.R10)));
        }
        Optional<AddressRange> mapped = mapped(answered.get(Name.RAX), asked.get(Name.RSI));
        if (caught && mapped.isPresent()) {
          return mapped;
        }
        mapped.ifPresent(smaller);
      }
    }
    return Optional.empty();
  }

  private static Optional<AddressRange> mapped(long start, long bytes) {
    return SystemCall.isError(start)
        ? Optional.empty()
        : Optional.of(new AddressRange(start, start + (bytes + PAGE - 1) / PAGE * PAGE));
  }

  private static boolean populatesMemory(Registers call) {
    return (int) call.get(Name.ORIG_RAX) == SystemCall.MMAP.number()
        && (call.get(Name.RDX) & PROT_WRITE) != 0
        && (call.get(Name.R10) & WANTED) == WANTED;
  }

  private <T> T work(Tracee thread, Landscape land, Work<T> work, AddressRange memory)
      throws UntraceableException, IOException {
    long end = Durations.end(CALLS);
    Tracee.Stop unused = thread.toTrap(end);
    BorrowedThread borrowed = BorrowedThread.of(thread, land, end);
    try {
      return work.with(borrowed, memory);
    } finally {
      borrowed.goHome();
      thread.resume();
    }
  }
}
