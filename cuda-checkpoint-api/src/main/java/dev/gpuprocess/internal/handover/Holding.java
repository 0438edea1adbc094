package dev.gpuprocess.internal.handover;

import dev.gpuprocess.internal.os.DescriptorPassing;
import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.trace.BorrowedThread;
import dev.gpuprocess.internal.trace.RemoteCalls;
import dev.gpuprocess.internal.trace.SystemCall;
import dev.gpuprocess.internal.trace.UntraceableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;

/** A process of which all threads are held, and one of them is borrowed for system calls. */
final class Holding implements HeldProcess {

  private static final int READ_WRITE = 3;
  private static final int PRIVATE_FIXED = 0x12;
  private static final int MAYMOVE_FIXED = 3;
  private static final int AF_UNIX = 1;
  private static final int DATAGRAMS_CLOEXEC = 0x80002;
  private static final int DONTWAIT_CLOEXEC = 0x40000040;

  private static final int SCRATCH_BYTES = 4096;
  private static final int SOCKETS = 0;
  private static final int MESSAGE = 64;
  private static final int VECTOR = 128;
  private static final int CONTROL = 192;
  private static final int DATA = 256;

  private static final int NONE = -1;

  private final int pid;
  private final BorrowedThread thread;
  private long taken = NONE;

  private Holding(int pid, BorrowedThread thread) {
    this.pid = pid;
    this.thread = thread;
  }

  /** What is done meanwhile. */
  @FunctionalInterface
  interface Work<T> {
    T with(HeldProcess held) throws IOException, UntraceableException;
  }

  /**
   * Holds a process.
   *
   * @param time for all of it
   * @throws UntraceableException when it cannot be held
   * @throws NotHeldException the same
   * @throws IOException what the work throws
   */
  static <T> T of(ProcessIdentity process, Duration time, Work<T> work)
      throws IOException, UntraceableException {
    int pid = process.pid();
    if (ProcFs.stat(pid).filter(stat -> stat.parent() == ProcessHandle.current().pid()).isPresent()) {
      // A stop of the first thread wakes the JDK, which takes it for the end of the process.
      throw new NotHeldException(
          "process " + pid + " was started by this JVM, which cannot hold its first thread", null);
    }
    return RemoteCalls.borrow(process, time, thread -> hold(pid, thread, work));
  }

  private static <T> T hold(int pid, BorrowedThread thread, Work<T> work)
      throws IOException, UntraceableException {
    OtherThreads others;
    try {
      others = OtherThreads.hold(pid, thread.task());
    } catch (IOException e) {
      throw new NotHeldException(String.valueOf(e.getMessage()), e);
    }
    Holding held = new Holding(pid, thread);
    try (others) {
      T result = work.with(held);
      held.release();
      return result;
    } catch (IOException | RuntimeException | Error e) {
      held.releaseAfter(e);
      throw e;
    }
  }

  private void releaseAfter(Throwable why) throws UntraceableException {
    try {
      release();
    } catch (IOException e) {
      why.addSuppressed(e);
    }
  }

  private void release() throws IOException, UntraceableException {
    if (taken != NONE) {
      closeThere(taken);
      taken = NONE;
    }
  }

  /** Closes what is to be closed next on our death. */
  private void closeThere(long descriptor) throws IOException, UntraceableException {
    thread.notOnOurDeath();
    long unused = thread.call(SystemCall.CLOSE, descriptor);
  }

  @Override
  public void take(int descriptor) throws IOException, UntraceableException {
    try {
      long scratch = thread.map(SCRATCH_BYTES);
      taken = take(descriptor, scratch);
      thread.onOurDeath(SystemCall.CLOSE, taken);
    } catch (IOException e) {
      throw new NotHeldException(
          "process %s cannot be given a descriptor: %s".formatted(pid, e.getMessage()), e);
    }
  }

  private long take(int descriptor, long scratch) throws IOException, UntraceableException {
    long unused =
        thread.call(SystemCall.SOCKETPAIR, AF_UNIX, DATAGRAMS_CLOEXEC, 0, scratch + SOCKETS);
    ByteBuffer pair =
        ByteBuffer.wrap(thread.memory().read(scratch + SOCKETS, 2 * Integer.BYTES))
            .order(ByteOrder.nativeOrder());
    int ours = pair.getInt();
    int theirs = pair.getInt();
    thread.onOurDeath(SystemCall.CLOSE, ours);
    thread.onOurDeath(SystemCall.CLOSE, theirs);
    try {
      send(ours, descriptor);
      thread.memory().write(scratch + VECTOR, DescriptorPassing.vector(scratch + DATA, 1));
      thread
          .memory()
          .write(
              scratch + MESSAGE, DescriptorPassing.message(scratch + VECTOR, scratch + CONTROL));
      long received =
          thread.call(SystemCall.RECVMSG, theirs, scratch + MESSAGE, DONTWAIT_CLOEXEC);
      if (received != 1) {
        throw new IOException("the descriptor did not arrive");
      }
      return DescriptorPassing.received(
          thread.memory().read(scratch + CONTROL, DescriptorPassing.CONTROL_BYTES));
    } finally {
      closeThere(theirs);
      closeThere(ours);
      thread.unmap(scratch, SCRATCH_BYTES);
    }
  }

  private void send(int socketThere, int descriptor) throws IOException {
    int socket = DescriptorPassing.copy(pid, socketThere);
    try {
      DescriptorPassing.send(socket, descriptor);
    } finally {
      Descriptors.close(socket);
    }
  }

  @Override
  public void mapFile(AddressRange at, long offset) throws IOException, UntraceableException {
    long unused =
        thread.call(
            SystemCall.MMAP, at.start(), at.bytes(), READ_WRITE, PRIVATE_FIXED, taken, offset);
  }

  @Override
  public long mapMemory(long bytes) throws IOException, UntraceableException {
    return thread.map(bytes);
  }

  @Override
  public void move(long from, AddressRange to) throws IOException, UntraceableException {
    thread.notOnOurDeath();
    try {
      long unused =
          thread.call(
              SystemCall.MREMAP, from, to.bytes(), to.bytes(), MAYMOVE_FIXED, to.start());
    } catch (IOException e) {
      thread.onOurDeath(SystemCall.MUNMAP, from, to.bytes());
      throw e;
    }
  }

  @Override
  public void unmap(AddressRange range) throws IOException, UntraceableException {
    thread.unmap(range.start(), range.bytes());
  }
}
