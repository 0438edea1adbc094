package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.process.Conversation.Answer;
import dev.gpuprocess.criu.internal.process.Conversation.Stage;
import dev.gpuprocess.criu.internal.process.ListenerStages;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Passes the stages of a dump to the listener, and records its progress. */
final class DumpStages extends ListenerStages {

  private final ProcessIdentity root;
  private final DumpListener listener;
  private final Runnable complete;
  private List<ProcessIdentity> tree;
  private List<ProcessIdentity> zombies = List.of();
  private boolean allowedToDie;

  /**
   * Creates the stages of a dump that has not begun.
   *
   * @param complete called before the listener once CRIU's images are complete; vetoes the dump by
   *     throwing
   */
  DumpStages(ProcessIdentity root, DumpListener listener, Runnable complete) {
    this.root = root;
    this.listener = listener;
    this.complete = complete;
    this.tree = List.of(root);
  }

  @Override
  protected Answer notify(Stage stage) {
    switch (stage.script()) {
      case "pre-dump" -> {
        checkIdentity();
        listener.preDump();
      }
      case "network-lock" -> listener.networkLock();
      case "query-ext-files" -> {
        lookAtTree();
        return new Answer(true, listener.queryExternalFiles());
      }
      case "post-dump" -> {
        checkIdentity();
        lookAtTree();
        complete.run();
        listener.postDump();
      }
      case "network-unlock" -> listener.networkUnlock();
      default -> {}
    }
    return Answer.YES;
  }

  @Override
  public void agreed(Stage stage) {
    allowedToDie |= stage.script().equals("post-dump");
  }

  @Override
  public boolean canStop() {
    return !allowedToDie;
  }

  /** Checks again that the pid belongs to the process, because CRIU looked it up by its pid. */
  private void checkIdentity() {
    if (!root.isAlive()) {
      throw new NoSuchProcessException(
          "process " + root.pid() + " ended before it could be dumped",
          Failure.of("dump", root.pid()));
    }
  }

  private void lookAtTree() {
    List<ProcessIdentity> living = new ArrayList<>(List.of(root));
    List<ProcessIdentity> dead = new ArrayList<>();
    for (int descendant : ProcFs.descendants(root.pid())) {
      ProcessIdentity.of(descendant)
          .ifPresent(process -> (process.isAlive() ? living : dead).add(process));
    }
    tree = List.copyOf(living);
    zombies = List.copyOf(dead);
  }

  /** The living processes of the tree, once it has been stopped; before that, only its root. */
  List<ProcessIdentity> tree() {
    return tree;
  }

  /** The whole tree, including its zombies: a restore needs their pids too. */
  List<ProcessIdentity> all() {
    return Stream.concat(tree.stream(), zombies.stream()).toList();
  }

  /** Returns whether the images are complete and CRIU was allowed to kill the tree. */
  boolean mayBeKilled() {
    return allowedToDie;
  }
}
