package dev.gpuprocess.contract;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpuParameter;
import dev.gpuprocess.options.Timeouts;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Launches process trees on a simulated machine: a parameter of tests with {@link
 * dev.gpuprocess.fixtures.SimulatedGpu}.
 *
 * @param machine on which the trees run
 * @param checkpoints of that machine
 */
public record LaunchedTree(SimulatedDriver machine, GpuCheckpoints checkpoints) {

  public static final int MEMBERS = 3;
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  /** Makes the parameters. */
  public static final class AsParameter implements SimulatedGpuParameter<LaunchedTree> {

    @Override
    public Class<LaunchedTree> type() {
      return LaunchedTree.class;
    }

    @Override
    public LaunchedTree on(SimulatedDriver machine) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(machine.stateDirectory())
              .timeouts(Timeouts.builder().memory(Duration.ofSeconds(2)).build())
              .build();
      return new LaunchedTree(machine, checkpoints);
    }
  }

  /** Starts a tree of a launcher, three members on all GPUs, and loaders. */
  public Job launch(int loaders) {
    return launch(MEMBERS, loaders);
  }

  /** Starts a tree. The tree is ended after the test. */
  public Job launch(int members, int loaders) {
    int gpus = checkpoints.gpus().gpus().orElseThrow().size();
    return machine.start(Job.launch(members, gpus, loaders).notOurChild());
  }

  /** Returns a directory of the test, removed after the test. */
  public Path directory() {
    try {
      return Files.createDirectories(machine.directory().resolve("test"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public Path state() {
    return machine.stateDirectory();
  }

  /** Returns the states of the first members, as the driver reports them. */
  public List<ProcessState> states(Job job, int members) {
    return IntStream.range(0, members)
        .mapToObj(each -> checkpoints.cuda().getState(job.member(each)).value())
        .toList();
  }

  /** Returns the number of processes with a journal entry. */
  public long entries() {
    return JournalFiles.in(state()).size();
  }

  /** Makes our journal entries those of a dead controller. */
  public void controllerDies() {
    JournalFiles.controllerDies(state());
  }

  /** Waits until each member has added again, and every loader got an answer. */
  public static void assertGoesOn(Job job, int members) {
    Job.Work before = job.work();
    Workload.await(
        () -> {
          Job.Work now = job.work();
          return now.added() > before.added() + members
              && (before.messages() == 0 || now.messages() > before.messages());
        },
        "the job to go on from " + before);
    for (int i = 0; i < members; i++) {
      String pattern = job.verify(i);
      if (!pattern.startsWith("ok ")) {
        throw new AssertionError("member " + i + ": " + pattern);
      }
    }
  }

  /** Returns the longest time that a test waits for anything. */
  public static Duration patience() {
    return PATIENCE;
  }
}
