package dev.gpuprocess.internal.trace;

import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.os.Ptrace;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.trace.Registers.Name;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.function.LongPredicate;

/** Looks at threads of another process while they are stopped for a moment. */
public final class StoppedThread {

  private StoppedThread() {}

  /**
   * Stops a thread, looks at its stack, and lets it go.
   *
   * @param process not started by this JVM if the thread is its first
   * @param task the thread
   * @param limit how long the thread may take to stop
   * @param look gets the stack pointer
   * @return what the look returned
   * @throws UntraceableException when the thread cannot be stopped, or has ended
   * @throws IOException when the kernel refuses a request
   */
  public static boolean look(ProcessIdentity process, int task, Duration limit, LongPredicate look)
      throws UntraceableException, IOException {
    if (ThreadChoice.isOurChild(process.pid()) && task == process.pid()) {
      throw Suitability.noThread(process); // the JDK would take its stop for its end
    }
    return TracerThread.run(
        process.pid(),
        Ptrace::new,
        ptrace -> look(Tracee.seize(ptrace, process, task), Durations.end(limit), look));
  }

  private static boolean look(Tracee thread, long end, LongPredicate look)
      throws UntraceableException, NativeCallException {
    thread.beginInterrupt();
    Tracee.Stop unused = thread.awaitTrap(end);
    boolean seen = look.test(OwnState.settle(thread).get(Name.RSP));
    thread.detach();
    return seen;
  }
}
