package dev.gpuprocess.contract;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.Workload;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;

/**
 * A process with one member, itself, or with several, which it has launched: what holds for both is
 * tested with both.
 */
public final class Launched {

  private final LaunchedTree tree;
  private final Workload root;
  private final List<Integer> members;
  private int increments;

  private Launched(LaunchedTree tree, Workload root, List<Integer> members) {
    this.tree = tree;
    this.root = root;
    this.members = members;
  }

  /** Starts a process with so many members; several of them have two loaders. */
  public static Launched with(LaunchedTree tree, int count) {
    if (count == 1) {
      Counter counter = tree.machine().start(Counter.launch());
      return new Launched(tree, counter, List.of((int) counter.pid()));
    }
    Job job = tree.launch(count, 2);
    return new Launched(tree, job, IntStream.range(0, count).mapToObj(job::member).toList());
  }

  public long pid() {
    return root.pid();
  }

  /** Returns the pids of the members. */
  public List<Integer> members() {
    return members;
  }

  /** Fails unless the driver reports this state for each member. */
  public void assertAll(ProcessState state) {
    assertEquals(
        Collections.nCopies(members.size(), state),
        members.stream().map(pid -> tree.checkpoints().cuda().getState(pid).value()).toList());
  }

  /** Fails unless each member runs, counts on, and has no journal entry. */
  public void assertRuns() {
    assertAll(ProcessState.RUNNING);
    if (root instanceof Job job) {
      LaunchedTree.assertGoesOn(job, members.size());
    } else {
      assertEquals(101 + increments++, ((Counter) root).increment());
    }
    assertEquals(0, tree.entries(), "a running process leaves no entries");
  }
}
