package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.process.Conversation;
import dev.gpuprocess.criu.internal.process.GivenUpException;
import dev.gpuprocess.report.ProcessIdentity;

/** Aborts a restore if the root of the tree has died, since CRIU would wait for it endlessly. */
final class RootDeathWatch implements Conversation.Watch {

  private final RestoreStages stages;
  private final Conversation.Watch next;
  private boolean seen;

  RootDeathWatch(RestoreStages stages, Conversation.Watch next) {
    this.stages = stages;
    this.next = next;
  }

  @Override
  public void look() throws GivenUpException {
    next.look();
    ProcessIdentity root = stages.root();
    // A resumed tree may exit at once, while CRIU is still finishing.
    if (root == null || stages.resumed() || root.isAlive()) {
      return;
    }
    if (seen) {
      throw GivenUpException.rootDied(root.pid());
    }
    // CRIU may have noticed too, and will give a better reason.
    seen = true;
  }
}
