package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.remote.Registers.Name;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tests the stacks of running threads, which are stopped for a moment. */
public final class ThreadStacks {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private ThreadStacks() {}

  /** A test of a thread's stack. */
  @FunctionalInterface
  public interface Test {

    /**
     * Tests a stack.
     *
     * @param task the thread
     * @param stackPointer the address of the top of its stack
     */
    boolean passes(int task, long stackPointer);
  }

  /**
   * Stops threads and tests the stack of each. All get the request to stop before the wait for the
   * first, since a thread that waits for a processor stops only when it has one.
   *
   * @param tasks threads of the process
   * @param limit the time for stopping all of them
   * @param test called while the thread is stopped
   * @return the threads that passed the test, and those that could not be stopped; not those that
   *     have ended
   * @throws UntraceableException if the process cannot be traced, or has ended
   * @throws IOException if the kernel refuses a request
   */
  public static List<Integer> matching(
      ProcessIdentity process, List<Integer> tasks, Duration limit, Test test)
      throws UntraceableException, IOException {
    boolean isAwaited = ChildWait.isFor(process.pid());
    Deadline deadline = Deadline.after(limit);
    return TracerThread.run(
        process.pid(),
        deadline,
        Ptrace::new,
        ptrace -> {
          List<Integer> matching = new ArrayList<>();
          List<Tracee> stopping = new ArrayList<>();
          for (int task : tasks) {
            if (isAwaited && task == process.pid()) {
              matching.add(task);
            } else {
              tried(
                  process,
                  task,
                  matching,
                  () -> {
                    Tracee thread = Tracee.seize(ptrace, process, task);
                    thread.beginInterrupt();
                    stopping.add(thread);
                    return false;
                  });
            }
          }
          for (Tracee thread : stopping) {
            tried(
                process,
                thread.task(),
                matching,
                () -> {
                  thread.awaitTrap(deadline);
                  boolean passed =
                      test.passes(thread.task(), SavedRegisters.settle(thread).get(Name.RSP));
                  thread.detach();
                  return passed;
                });
          }
          return matching;
        });
  }

  /** What is done to a thread; true if it passed the test. */
  private interface Attempt {
    boolean run() throws UntraceableException, NativeCallException;
  }

  private static void tried(
      ProcessIdentity process, int task, List<Integer> matching, Attempt attempt)
      throws NativeCallException {
    try {
      if (attempt.run()) {
        matching.add(task);
      }
    } catch (UntraceableException e) {
      LOG.debug("thread {} of process {} was not stopped", task, process.pid(), e);
      if (e.reason() != Reason.GONE) {
        matching.add(task);
      }
    } catch (NativeCallException e) {
      if (!e.isGone()) {
        throw e;
      }
    }
  }
}
