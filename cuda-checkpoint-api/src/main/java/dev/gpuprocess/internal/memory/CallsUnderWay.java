package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.remote.ThreadStacks;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.LongBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongPredicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Waits for the calls that the threads of a locked process entered before its gate was set. The GPU
 * is idle, so each call returns within microseconds of processor time.
 *
 * <p>A thread is inside such a call if the return address of the call is on its stack, or on a
 * stack that a signal handler of the thread interrupted. The stack of a sleeping thread is read
 * without stopping it; a running thread is stopped for a moment.
 *
 * <p>A thread that sleeps in a futex without a time limit continues only if another thread wakes
 * it. Inside such a call it waits for a mutex of the driver. So no call is under way if all such
 * threads sleep so, and no thread runs in libcuda: the owner of the mutex then waits at the
 * driver's lock.
 */
final class CallsUnderWay {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The frames of the C library's functions that libcuda calls are smaller. */
  private static final int TOP_BYTES = 1 << 12;

  private static final String FUTEX = "202";

  /**
   * System calls that end without another thread, so that their caller may hold a mutex of the
   * driver: mmap, mprotect, munmap, brk, ioctl, sched_yield, madvise, nanosleep, clock_nanosleep.
   */
  private static final Set<String> BRIEF_CALLS =
      Set.of("9", "10", "11", "12", "16", "24", "28", "35", "230");

  /**
   * An old return address on a stack looks like a call. A thread that has used the processor for
   * this long since it was first read has left the call.
   */
  private static final Duration LONG_RUN = Duration.ofMillis(100);

  /**
   * A thread that has slept for this long has left the call. Not less: on a busy machine a thread
   * inside such a call waits for a mutex of the driver whose owner gets no processor.
   */
  private static final Duration LONG_SLEEP = Duration.ofSeconds(2);

  private static final Duration STOPPING = Duration.ofSeconds(2);

  private final ProcessIdentity process;
  private final StackReader stacks;
  private final Map<Long, GatePage.Entry> byReturnAddress;
  private final long leastReturnAddress;
  private final long mostReturnAddress;
  private final LongPredicate isDriverCode;
  private final Map<Integer, Usage> seen = new HashMap<>();

  /** Threads in a signal handler that interrupted a call: they have not left it. */
  private final Set<Integer> interrupted = ConcurrentHashMap.newKeySet();

  /** What the stacks of a thread show. */
  private enum Place {
    OUTSIDE,
    INSIDE,
    /** Inside, and in a signal handler. */
    INTERRUPTED
  }

  /**
   * The processor time of a thread, in nanoseconds.
   *
   * @param first at the first reading
   * @param last at the last reading
   * @param since when the thread was first read with the last processor time
   */
  private record Usage(long first, long last, long since) {}

  CallsUnderWay(
      ProcessIdentity process,
      ProcessMemory memory,
      Collection<GatePage> pages,
      LongPredicate isDriverCode) {
    this.process = process;
    this.isDriverCode = isDriverCode;
    this.stacks = new StackReader(memory);
    this.byReturnAddress =
        pages.stream()
            .flatMap(page -> page.entries().stream())
            .collect(Collectors.toMap(GatePage.Entry::returnAddress, entry -> entry, (a, b) -> a));
    this.leastReturnAddress = byReturnAddress.keySet().stream().mapToLong(a -> a).min().orElse(0);
    this.mostReturnAddress = byReturnAddress.keySet().stream().mapToLong(a -> a).max().orElse(0);
  }

  /**
   * Waits until all threads have left the calls.
   *
   * @param mappings of the process; read again for a thread whose stack is in none of them
   * @return the threads that have not
   */
  List<Integer> await(List<Mapping> mappings, Duration limit) {
    List<Integer> inside = stillInside(ProcFs.threads(process.pid()), mappings);
    try (Polling polling = new Polling(limit)) {
      while (!inside.isEmpty() && polling.pause()) {
        // all threads: one that slept may have been woken by one that has left
        inside = stillInside(ProcFs.threads(process.pid()), ProcFs.memory(process.pid()));
      }
    }
    return inside;
  }

  private List<Integer> stillInside(List<Integer> threads, List<Mapping> mappings) {
    List<Integer> inside = new ArrayList<>();
    List<Integer> running = new ArrayList<>();
    List<Integer> inKernel = new ArrayList<>();
    boolean waitsForMutex = false;
    interrupted.clear();
    for (int thread : threads) {
      Optional<String> call = ProcFs.read(thread, "syscall");
      if (call.isEmpty()) {
        continue; // it has ended
      }
      String[] words = call.get().strip().split(" ");
      if (words.length < 3) {
        running.add(thread);
        continue;
      }
      Place place = place(thread, StackReader.pointer(words), mappings, true);
      if (place == Place.INSIDE && sleepsUntilWoken(words)) {
        waitsForMutex = true;
      } else if (place != Place.OUTSIDE) {
        inside.add(thread);
      } else if (!ProcFs.read(thread, "syscall").equals(call)) { // it continued: read it again
        inside.add(thread);
      } else if (BRIEF_CALLS.contains(words[0])) {
        inKernel.add(thread);
      }
    }
    boolean alsoOwners = waitsForMutex;
    if (alsoOwners) {
      inKernel.stream().filter(thread -> isInDriver(thread, mappings)).forEach(inside::add);
    }
    inside.addAll(
        matching(
            running,
            (thread, stackPointer) ->
                place(thread, stackPointer, mappings, false) != Place.OUTSIDE
                    || (alsoOwners && isInDriver(stackPointer, mappings))));
    inside.removeIf(thread -> !interrupted.contains(thread) && hasMovedOn(thread));
    return inside;
  }

  /** Returns whether a system call is a wait at a futex without a time limit. */
  private static boolean sleepsUntilWoken(String[] words) {
    return words[0].equals(FUTEX) && words.length > 4 && words[4].equals("0x0");
  }

  private List<Integer> matching(List<Integer> running, ThreadStacks.Test test) {
    if (running.isEmpty()) {
      return running;
    }
    try {
      return ThreadStacks.matching(process, running, STOPPING, test);
    } catch (UntraceableException | IOException e) {
      LOG.debug("the threads of process {} were not stopped", process.pid(), e);
      return running; // until they have used the processor for long enough
    }
  }

  private boolean isInDriver(int thread, List<Mapping> mappings) {
    String[] words = ProcFs.read(thread, "syscall").orElse("").strip().split(" ");
    return words.length > 2 && isInDriver(StackReader.pointer(words), mappings);
  }

  /** Returns whether a function of libcuda has called what the thread executes. */
  private boolean isInDriver(long stackPointer, List<Mapping> mappings) {
    Optional<long[]> top = stacks.words(stackPointer, mappings, TOP_BYTES);
    return top.isEmpty() || Arrays.stream(top.get()).anyMatch(isDriverCode);
  }

  /**
   * Returns whether a thread has used the processor, or slept, long enough since its first reading.
   */
  private boolean hasMovedOn(int thread) {
    long processor = processorNanos(thread);
    long now = System.nanoTime();
    Usage then = seen.getOrDefault(thread, new Usage(processor, processor, now));
    seen.put(
        thread, new Usage(then.first(), processor, processor == then.last() ? then.since() : now));
    return processor - then.first() >= LONG_RUN.toNanos()
        || (processor == then.last()
            && now - then.since() >= LONG_SLEEP.toNanos()
            && isAsleep(thread));
  }

  private static boolean isAsleep(int thread) {
    return ProcFs.status(thread).getOrDefault("State", "").startsWith("S");
  }

  private static long processorNanos(int thread) {
    return ProcFs.read(thread, "schedstat")
        .map(text -> Long.parseLong(text.substring(0, text.indexOf(' '))))
        .orElse(0L);
  }

  /**
   * Returns what the stacks of a thread show.
   *
   * @param asleep whether the thread sleeps; a running thread in the gate may just have passed the
   *     lock
   */
  private Place place(int thread, long stackPointer, List<Mapping> mappings, boolean asleep) {
    Optional<List<StackReader.Stack>> found = stacks.of(thread, stackPointer, mappings);
    if (found.isEmpty()) {
      return Place.INSIDE; // a stack that cannot be read is perhaps new: read again
    }
    for (StackReader.Stack stack : found.get()) {
      boolean sleeps = stack.interrupted() ? stack.slept() : asleep;
      if (waits(stack, sleeps)) {
        return Place.OUTSIDE; // it waits, in a handler perhaps, and returns to the others later
      }
      if (isInside(stack)) {
        if (!stack.interrupted() || !stack.certain()) {
          return Place.INSIDE;
        }
        interrupted.add(thread);
        return Place.INTERRUPTED;
      }
    }
    return Place.OUTSIDE;
  }

  /** Returns whether the code on a stack sleeps in the gate. */
  private boolean waits(StackReader.Stack stack, boolean sleeps) {
    LongBuffer words = stack.words();
    for (int i = 0; sleeps && i < words.limit(); i++) {
      GatePage.Entry entry = entry(words.get(i));
      if (entry != null) {
        long waiting = GatePage.waitAddressBelow(stack.pointer() + (long) i * Long.BYTES);
        int below = (int) ((waiting - stack.pointer()) / Long.BYTES);
        if (waiting >= stack.pointer() && words.get(below) == entry.waitAddress()) {
          return true; // what else is on the stack is of an earlier call
        }
      }
    }
    return false;
  }

  private boolean isInside(StackReader.Stack stack) {
    LongBuffer words = stack.words();
    return IntStream.range(0, words.limit()).anyMatch(i -> entry(words.get(i)) != null);
  }

  private GatePage.@Nullable Entry entry(long word) {
    // nearly all words, of many threads, are outside the range
    return word < leastReturnAddress || word > mostReturnAddress ? null : byReturnAddress.get(word);
  }
}
