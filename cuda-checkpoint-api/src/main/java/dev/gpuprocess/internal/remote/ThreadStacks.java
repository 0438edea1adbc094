package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.remote.Registers.Name;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongPredicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tests the stacks of running threads, each of which is stopped for a moment. */
public final class ThreadStacks {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private ThreadStacks() {}

  /**
   * Stops threads, one after the other, and tests the stack of each.
   *
   * @param tasks threads of the process
   * @param limit the time for stopping all of them
   * @param test gets the stack pointer
   * @return the threads that passed the test, and those that could not be stopped; not those that
   *     have ended
   * @throws UntraceableException if the process cannot be traced, or has ended
   * @throws IOException if the kernel refuses a request
   */
  public static List<Integer> matching(
      ProcessIdentity process, List<Integer> tasks, Duration limit, LongPredicate test)
      throws UntraceableException, IOException {
    boolean ours = ThreadChoice.isOurChild(process.pid());
    long end = Durations.end(limit);
    return TracerThread.run(
        process.pid(),
        Ptrace::new,
        ptrace -> {
          List<Integer> matching = new ArrayList<>();
          for (int task : tasks) {
            // The JDK would take a stop of its child's first thread for the child's exit.
            boolean skip = ours && task == process.pid();
            if (skip || matches(process, ptrace, task, end, test)) {
              matching.add(task);
            }
          }
          return matching;
        });
  }

  private static boolean matches(
      ProcessIdentity process, Ptrace ptrace, int task, long end, LongPredicate test)
      throws NativeCallException {
    try {
      Tracee thread = Tracee.seize(ptrace, process, task);
      thread.beginInterrupt();
      thread.awaitTrap(end);
      boolean passed = test.test(SavedRegisters.settle(thread).get(Name.RSP));
      thread.detach();
      return passed;
    } catch (UntraceableException e) {
      LOG.debug("thread {} of process {} was not stopped", task, process.pid(), e);
      return e.reason() != Reason.GONE;
    } catch (NativeCallException e) {
      if (e.isGone()) {
        return false;
      }
      throw e;
    }
  }
}
