package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.context.LibraryClasses;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.ProcessTree;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.state.Generation;
import dev.gpuprocess.internal.state.ImageEntry;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.GpuPlugin;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The process tree behind a series of state objects, with its members, which are moved together.
 * Records which state object is the newest, and runs one verb at a time.
 */
public final class TrackedTree {

  public final EngineContext context;

  public final ProcessIdentity root;

  private final ProcessKey key;
  private final @Nullable GpuPlugin plugin;
  private final AtomicInteger current = new AtomicInteger();

  /** Changed by the verb that holds all locks. */
  private volatile List<TrackedProcess> members;

  private TrackedTree(
      EngineContext context,
      ProcessIdentity root,
      @Nullable GpuPlugin plugin,
      List<TrackedProcess> members) {
    this.plugin = plugin;
    this.context = context;
    this.root = root;
    this.key = ProcessKey.of(root);
    this.members = List.copyOf(members);
  }

  /** Creates a tree with the members that it has now: possibly none, and more may be added. */
  public static TrackedTree of(
      EngineContext context, ProcessIdentity root, List<TrackedProcess> members) {
    TrackedTree tree = new TrackedTree(context, root, null, members);
    members.forEach(each -> each.setRoot(tree.key));
    return tree;
  }

  /** Creates a tree without CUDA, whose GPU state a plugin of CRIU moves. */
  public static TrackedTree of(EngineContext context, ProcessIdentity root, GpuPlugin plugin) {
    return new TrackedTree(context, root, plugin, List.of());
  }

  /** Returns whether its only member is its root. */
  public boolean isSingle() {
    return members.size() == 1 && members.get(0).key.equals(key);
  }

  /** Returns whether an image is of this tree, or of the tree that it was restored from. */
  public boolean isIn(ManifestData image) {
    return root.equals(new ProcessIdentity(image.pid(), image.startTicks()))
        || members.stream().anyMatch(each -> each.isIn(image));
  }

  /** Returns the plugin of CRIU that moves its GPU state; null if the CUDA driver moves it. */
  public @Nullable GpuPlugin plugin() {
    return plugin;
  }

  ProcessKey key() {
    return key;
  }

  /**
   * Checks that no verb is under way on the root or a member, in any JVM, as far as is known.
   *
   * @param verb for the exception
   * @throws dev.gpuprocess.error.OperationInProgressException names the verb and its controller
   */
  public void requireNoVerb(String verb) {
    requireNoVerb(key, root.pid(), verb);
    members.forEach(each -> requireNoVerb(each.key, each.pid(), verb));
  }

  private void requireNoVerb(ProcessKey process, int pid, String verb) {
    ProcessLock.holder(process, context.state())
        .ifPresent(
            other -> {
              throw other.inProgress(
                  pid, "try again when that has ended", Failure.of(verb, root.pid()));
            });
  }

  /** Returns whether the members are those of an earlier search, and none was moved since. */
  boolean isWhereItWas(TrackedTree earlier) {
    return lastMoves().equals(earlier.lastMoves());
  }

  private Map<ProcessKey, Optional<Generation>> lastMoves() {
    return members.stream().collect(Collectors.toMap(each -> each.key, TrackedProcess::seen));
  }

  /** Returns the members. A member that left the tree when its parent exited stays one. */
  public List<TrackedProcess> members() {
    return members;
  }

  void add(TrackedProcess member) {
    member.setRoot(key);
    List<TrackedProcess> more = new ArrayList<>(members);
    more.add(member);
    members = List.copyOf(more);
  }

  void remove(TrackedProcess member) {
    members = members.stream().filter(each -> !each.equals(member)).toList();
  }

  /** Returns whether its root is alive, or that is not known. */
  public boolean mayLive() {
    return Unreadable.as(true, root::isAlive);
  }

  /** Returns its name for a sentence. */
  public String name() {
    return "process " + root.pid();
  }

  /** Returns the call by which a user gets its newest state object. */
  String inspection() {
    if (plugin != null) {
      return "AmdProcess.of(%s)".formatted(root.pid());
    }
    return "GpuProcess.inspect(%s)".formatted(root.pid());
  }

  /** Returns the generation of the next state object; older objects become stale. */
  public int advance() {
    return current.incrementAndGet();
  }

  /** Returns the generation of the newest state object. */
  int generation() {
    return current.get();
  }

  boolean isCurrent(int generation) {
    return current.get() == generation;
  }

  /** Journals that an image is being made, and the directory of CRIU's log. */
  public void note(String step, Path image, @Nullable Path log) {
    members.forEach(each -> each.note(step, image, log));
  }

  /**
   * Journals that an image is being made or not on the disk yet. The entry is independent of the
   * entries of the processes.
   *
   * @return the entry, to be closed when the image has its name, or is gone
   */
  public ImageEntry noteImage(Path image, Path log) {
    return new Journal(context.state()).writeImage(root.pid(), image, log);
  }

  /**
   * Kills all processes of the tree, and waits until they are gone.
   *
   * @throws OperationTimedOutException when a process of the tree does not exit
   */
  public void kill() {
    Set<ProcessIdentity> all = new LinkedHashSet<>();
    all.add(root);
    members().forEach(each -> all.add(each.identity));
    if (!ProcessTree.end(all, context.timeouts().call())) {
      throw new OperationTimedOutException(
          "%s does not end: the kernel blocks the exit of one of its processes, see /proc/PID/stack of each"
              .formatted(name()),
          Failure.of("end", root.pid()));
    }
  }

  /** Removes the journal entries: nothing is left to recover. */
  public void forget() {
    members.forEach(TrackedProcess::forget);
  }

  /**
   * Runs a verb under the locks of all members, if they are still the same processes and the state
   * object is the newest. Members that have exited are left out.
   */
  public <T> T exclusively(
      String verb, ProcessLock.Kind kind, int generation, Function<TreeOperation, T> body) {
    TreeOperation operation = TreeOperation.begin(this, verb, kind);
    try {
      if (!isCurrent(generation)) {
        throw new StaleStateException(
            "%s has moved on since this object was made; go on with the newest one, or with %s"
                .formatted(name(), inspection()),
            Failure.of(verb, root.pid()));
      }
      operation.requireReachable();
      return body.apply(operation);
    } catch (GpuCheckpointException e) {
      VerbOutcome.addState(operation, e);
      throw e;
    } catch (LinkageError e) {
      throw LibraryClasses.unloadable(
          "%s of %s".formatted(verb, name()), operation.failure(null, null), e);
    } finally {
      ResumeOnExit.settle(operation);
      operation.releaseLocks();
    }
  }
}
