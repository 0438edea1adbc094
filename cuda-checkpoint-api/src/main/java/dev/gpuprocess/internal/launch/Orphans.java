package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Polling;
import java.time.Duration;
import java.util.List;

/**
 * Processes of a tree whose parents have exited. If this JVM is the first process of a container,
 * or a subreaper, they become its children, and no other process can reap them.
 */
final class Orphans {

  private Orphans() {}

  /** Reaps the orphans of a session that have exited. */
  static void reap(int session) throws NativeCallException {
    for (ProcStat child : childrenIn(session)) {
      // A root may be restored already, with the pid and session of the dumped process.
      if (child.isDead() && !LaunchedRoot.isRoot(child.pid())) {
        PidDescriptor.reapIfEnded(child.pid());
      }
    }
  }

  /** Reaps all orphans of a session, which are about to exit; gives up at the end of the limit. */
  static void awaitAndReap(int session, Duration limit) throws NativeCallException {
    try (Polling patience = new Polling(limit)) {
      do {
        reap(session);
      } while (!childrenIn(session).isEmpty() && patience.pause());
    }
  }

  private static List<ProcStat> childrenIn(int session) {
    int us = (int) ProcessHandle.current().pid();
    return ProcFs.descendants(us).stream()
        .flatMap(pid -> ProcFs.stat(pid).stream())
        .filter(stat -> stat.parent() == us && stat.session() == session)
        .toList();
  }
}
