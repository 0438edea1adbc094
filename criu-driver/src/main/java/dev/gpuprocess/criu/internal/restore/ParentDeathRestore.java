package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.images.ParentDeathSignals;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sets the parent-death signal of a restored root again, when CRIU has exited and the parent of the
 * root is init or the nearest subreaper: the threads of the root call {@code prctl} themselves.
 *
 * @param images the directory of the image files
 * @param subject the restore, for messages
 */
record ParentDeathRestore(Path images, String subject) {

  private static final Logger LOG = LoggerFactory.getLogger(ParentDeathRestore.class);

  private static final int PR_SET_PDEATHSIG = 1;
  private static final Duration LIMIT = Duration.ofSeconds(5);

  /**
   * Sets the signals.
   *
   * @param asChild whether the root is a child of this JVM: its parent is the thread that called
   *     CRIU, whose end would send the signal, so it is not set
   */
  void run(ProcessIdentity root, boolean asChild) {
    try {
      Map<Integer, Integer> signals = ParentDeathSignals.in(images).byThread();
      if (signals.isEmpty()) {
        return;
      }
      if (asChild) {
        LOG.warn("{}: its parent-death signal is not set, because its parent is this JVM", subject);
        return;
      }
      for (int thread : ProcFs.threads(root.pid())) {
        Integer signal = signals.get(ProcFs.innermostPid(thread).orElse(thread));
        if (signal != null) {
          set(root, thread, signal);
        }
      }
    } catch (IOException | UntraceableException e) {
      LOG.warn("{}: its parent-death signal is not set: {}", subject, e.getMessage());
    }
  }

  private static void set(ProcessIdentity root, int thread, int signal)
      throws IOException, UntraceableException {
    long unused =
        RemoteCalls.borrow(
            root,
            LIMIT,
            task -> task == thread,
            borrowed -> borrowed.call(SystemCall.PRCTL, PR_SET_PDEATHSIG, signal, 0, 0, 0));
  }
}
