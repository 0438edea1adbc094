package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.remote.Registers.Name;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongPredicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Looks at threads of another process while each of them is stopped for a moment. */
public final class ThreadStacks {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private ThreadStacks() {}

  /**
   * Stops threads, one after the other, looks at the stack of each, and lets it go.
   *
   * @param process the process
   * @param tasks its threads
   * @param limit how long all of them may take to stop
   * @param look gets the stack pointer
   * @return the threads for which the look returned true, and those that could not be stopped; not
   *     those that have ended
   * @throws UntraceableException when the process cannot be traced, or has ended
   * @throws IOException when the kernel refuses a request
   */
  public static List<Integer> matching(
      ProcessIdentity process, List<Integer> tasks, Duration limit, LongPredicate look)
      throws UntraceableException, IOException {
    boolean ours = ThreadChoice.isOurChild(process.pid());
    long end = Durations.end(limit);
    return TracerThread.run(
        process.pid(),
        Ptrace::new,
        ptrace -> {
          List<Integer> matching = new ArrayList<>();
          for (int task : tasks) {
            // The JDK would take a stop of the first thread of its child for the child's end.
            boolean leave = ours && task == process.pid();
            if (leave || matches(process, ptrace, task, end, look)) {
              matching.add(task);
            }
          }
          return matching;
        });
  }

  private static boolean matches(
      ProcessIdentity process, Ptrace ptrace, int task, long end, LongPredicate look)
      throws NativeCallException {
    try {
      Tracee thread = Tracee.seize(ptrace, process, task);
      thread.beginInterrupt();
      Tracee.Stop unused = thread.awaitTrap(end);
      boolean seen = look.test(SavedRegisters.settle(thread).get(Name.RSP));
      thread.detach();
      return seen;
    } catch (UntraceableException e) {
      LOG.debug("thread {} of process {} is not stopped", task, process.pid(), e);
      return e.why().reason() != Untraceable.Reason.GONE;
    } catch (NativeCallException e) {
      if (e.isGone()) {
        return false;
      }
      throw e;
    }
  }
}
