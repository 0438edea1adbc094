package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.process.Conversation;
import dev.gpuprocess.criu.internal.process.GivenUpException;
import dev.gpuprocess.process.ProcessIdentity;

/**
 * Gives a restore up when the root of the tree has died in it: CRIU waits for such a task for ever.
 */
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
    // One that is let go may end at once, however long CRIU still takes.
    if (root == null || stages.resumed() || root.isAlive()) {
      return;
    }
    if (seen) {
      throw GivenUpException.rootDied(root.pid());
    }
    // CRIU may have noticed it too, and say better what has gone wrong.
    seen = true;
  }
}
