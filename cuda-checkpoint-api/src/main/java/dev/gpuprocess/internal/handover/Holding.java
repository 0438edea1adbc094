package dev.gpuprocess.internal.handover;

import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.trace.BorrowedThread;
import dev.gpuprocess.internal.trace.HeldThreads;
import dev.gpuprocess.internal.trace.PassedDescriptor;
import dev.gpuprocess.internal.trace.SystemCall;
import dev.gpuprocess.internal.trace.UntraceableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.List;

/**
 * A process whose threads are all held, and whose mappings can be changed meanwhile, since nothing
 * else changes them. It runs on when the work is done, and when this JVM ends. For the thread that
 * does the work.
 */
final class Holding {

  private static final int READ_WRITE = 3;
  private static final int PRIVATE_FIXED = 0x12;
  private static final int MAYMOVE_FIXED = 3;

  private final HeldThreads threads;

  private Holding(HeldThreads threads) {
    this.threads = threads;
  }

  /** What is done meanwhile. */
  @FunctionalInterface
  interface Work {
    void with(Holding held) throws IOException, UntraceableException;
  }

  /** Writes memory of the process. */
  @FunctionalInterface
  interface Filler {
    void fill(long address) throws IOException;
  }

  /**
   * Holds a process.
   *
   * @param time for all of it
   * @throws UntraceableException when it cannot be held
   * @throws NotHeldException when not all of its threads can be held, or there are {@link
   *     OtherWriters}; it was not changed
   * @throws IOException what the work throws
   */
  static void during(ProcessIdentity process, Duration time, Work work)
      throws IOException, UntraceableException {
    boolean unused =
        HeldThreads.hold(
            process,
            time,
            threads -> {
              if (threads.firstThreadRuns()) {
                throw new NotHeldException(
                    "process %s was started by this JVM, which cannot hold its first thread"
                        .formatted(process.pid()),
                    null);
              }
              OtherWriters.requireNone(process.pid());
              work.with(new Holding(threads));
              return true;
            });
  }

  /**
   * Gives the process a descriptor of this JVM and takes it back, to see that it can be done.
   *
   * @throws NotHeldException when it cannot
   */
  void rehearse(int descriptor) throws IOException, UntraceableException {
    try {
      int unused =
          threads.borrow(
              thread -> {
                try (PassedDescriptor passed = PassedDescriptor.pass(thread, descriptor)) {
                  return passed.number();
                }
              });
    } catch (IOException e) {
      throw new NotHeldException(String.valueOf(e.getMessage()), e);
    }
  }

  /**
   * Maps a file privately, to be read and written, in the place of memory.
   *
   * @param parts the memory, and where it is in the file
   * @param descriptor of this JVM; open for reading is enough
   * @param mapped gets each part that is mapped
   */
  void map(List<PlacedRange> parts, int descriptor, List<PlacedRange> mapped)
      throws IOException, UntraceableException {
    boolean unused =
        threads.borrow(
            thread -> {
              try (PassedDescriptor passed = PassedDescriptor.pass(thread, descriptor)) {
                for (PlacedRange part : parts) {
                  map(thread, part, passed.number());
                  mapped.add(part);
                }
              }
              return true;
            });
  }

  private static void map(BorrowedThread thread, PlacedRange part, int descriptor)
      throws IOException, UntraceableException {
    AddressRange at = part.range();
    long unused =
        thread.call(
            SystemCall.MMAP,
            at.start(),
            at.bytes(),
            READ_WRITE,
            PRIVATE_FIXED,
            descriptor,
            part.offset());
  }

  /**
   * Puts new memory in the place of what is there, in one step.
   *
   * @param filler writes it beforehand, elsewhere in the process
   */
  void replace(AddressRange range, Filler filler) throws IOException, UntraceableException {
    boolean unused =
        threads.borrow(
            thread -> {
              long fresh = thread.map(range.bytes());
              try {
                filler.fill(fresh);
              } catch (IOException | RuntimeException e) {
                thread.unmap(fresh, range.bytes());
                throw e;
              }
              move(thread, fresh, range);
              return true;
            });
  }

  private static void move(BorrowedThread thread, long from, AddressRange to)
      throws IOException, UntraceableException {
    // Moved away and unmapped on the way home it could be somebody else's by then.
    thread.notOnTheWayHome();
    try {
      long unused =
          thread.call(SystemCall.MREMAP, from, to.bytes(), to.bytes(), MAYMOVE_FIXED, to.start());
    } catch (IOException e) {
      long unused = thread.call(SystemCall.MUNMAP, from, to.bytes());
      throw e;
    }
  }
}
