package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.process.Conversation;
import dev.gpuprocess.criu.internal.process.Conversation.Answer;
import dev.gpuprocess.criu.internal.process.Conversation.Stage;
import dev.gpuprocess.criu.internal.process.GivenUpException;
import dev.gpuprocess.criu.internal.process.ListenerStages;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.RestoreListener;
import java.io.IOException;
import org.jspecify.annotations.Nullable;

/**
 * Passes the stages of a restore to the listener, and records its progress. Aborts the restore if
 * the root of the tree has died, since CRIU would wait for it endlessly.
 */
final class RestoreStages extends ListenerStages implements Conversation.Watch {

  private final int expected;
  private final RestoreListener listener;
  private final boolean otherNumberOutside;
  private final RestoreRights rights;
  private @Nullable ProcessIdentity root;
  private boolean begun;
  private boolean resumed;
  private boolean seenDead;

  /**
   * Creates the stages of a restore that has not begun.
   *
   * @param expected the pid of the root
   * @param otherNumberOutside whether the tree has a pid namespace of its own, so that the root may
   *     have any pid outside
   * @param rights checks the rights of CRIU before it creates anything
   */
  RestoreStages(
      int expected, boolean otherNumberOutside, RestoreListener listener, RestoreRights rights) {
    this.rights = rights;
    this.expected = expected;
    this.otherNumberOutside = otherNumberOutside;
    this.listener = listener;
  }

  /** Returns the stages of another attempt; the listener gets its first call only once. */
  RestoreStages again() {
    RestoreStages next = new RestoreStages(expected, otherNumberOutside, listener, rights);
    next.begun = begun;
    return next;
  }

  @Override
  public Answer reached(Stage stage) {
    // From here on CRIU ignores a refusal.
    resumed |= stage.script().equals("pre-resume") || stage.script().equals("post-resume");
    return super.reached(stage);
  }

  @Override
  protected Answer notify(Stage stage) throws IOException {
    switch (stage.script()) {
      case "pre-restore" -> {
        if (!begun) {
          rights.require(stage.criu());
          begun = true;
          listener.preRestore();
        }
      }
      case "setup-namespaces" -> {
        checkPid(stage.pid());
        root = ProcessIdentity.of(stage.pid()).orElse(null);
        listener.setupNamespaces(stage.pid());
      }
      case "post-setup-namespaces" -> listener.postSetupNamespaces();
      case "post-restore" -> {
        checkPid(stage.pid());
        root = ProcessIdentity.of(stage.pid()).orElse(null);
        listener.postRestore(stage.pid());
      }
      case "network-unlock" -> listener.networkUnlock();
      case "pre-resume" -> listener.preResume();
      case "post-resume" -> listener.postResume();
      default -> {}
    }
    return Answer.YES;
  }

  @Override
  public void look() throws GivenUpException {
    // A resumed tree may exit at once, while CRIU is still finishing.
    if (root == null || resumed || root.isAlive()) {
      return;
    }
    if (seenDead) {
      throw GivenUpException.rootDied(root.pid());
    }
    // CRIU may have noticed too, and will give a better reason.
    seenDead = true;
  }

  @Override
  public boolean canStop() {
    return !resumed;
  }

  private void checkPid(int pid) {
    if (pid != expected && !otherNumberOutside) {
      throw new ImageException(
          ImageException.Reason.CORRUPT,
          "the images hold process " + pid + ", not " + expected,
          Failure.of("restore", expected));
    }
  }

  /** Returns whether the root may have any pid outside. */
  boolean otherNumberOutside() {
    return otherNumberOutside;
  }

  /** The root, or null until it exists. */
  @Nullable ProcessIdentity root() {
    return root;
  }

  /** Returns whether CRIU has begun to resume the tree. */
  boolean resumed() {
    return resumed;
  }
}
