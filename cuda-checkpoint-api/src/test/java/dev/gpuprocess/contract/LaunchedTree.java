package dev.gpuprocess.contract;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.Timeouts;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * For each test, a machine with two simulated GPUs and a state directory of its own, on which trees
 * are launched. Register it as a field with {@link
 * org.junit.jupiter.api.extension.RegisterExtension}.
 */
@NullUnmarked
public final class LaunchedTree implements BeforeEachCallback, AfterEachCallback {

  public static final int MEMBERS = 3;
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final List<Job> launched = new ArrayList<>();
  private Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;

  @Override
  public void beforeEach(ExtensionContext context) throws IOException {
    directory = Files.createTempDirectory("gpuprocess-test");
    machine = SimulatedDriver.builder().gpus(2).memory(2L << 30).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(state())
            .timeouts(Timeouts.builder().memory(Duration.ofSeconds(2)).build())
            .build();
  }

  @Override
  public void afterEach(ExtensionContext context) throws IOException {
    if (machine != null) {
      machine.clearFaults();
    }
    launched.forEach(Job::close);
    if (machine != null) {
      machine.close();
    }
    List<Path> all;
    try (Stream<Path> files = Files.walk(directory)) {
      all = files.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path file : all) {
      Files.delete(file);
    }
  }

  /** Starts a tree of a launcher, three members on both GPUs, and loaders. */
  public Job launch(int loaders) {
    return launch(MEMBERS, loaders);
  }

  /** Starts a tree. It is ended after the test. */
  public Job launch(int members, int loaders) {
    Job job = Job.launch(members, 2, loaders).on(machine).notOurChild().start();
    launched.add(job);
    return job;
  }

  /** An empty directory, removed after the test. */
  public Path directory() {
    return directory;
  }

  public Path state() {
    return directory.resolve("state");
  }

  public SimulatedDriver machine() {
    return machine;
  }

  public GpuCheckpoints checkpoints() {
    return checkpoints;
  }

  /** The states of its first members, by the driver. */
  public List<ProcessState> states(Job job, int members) {
    return IntStream.range(0, members)
        .mapToObj(each -> checkpoints.cuda().getState(job.member(each)).value())
        .toList();
  }

  /** How many processes the journal has entries of. */
  public long entries() {
    if (!Files.exists(state())) {
      return 0;
    }
    try (Stream<Path> files = Files.list(state())) {
      return files.filter(file -> file.toString().endsWith(".process")).count();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Makes our journal entries those of a dead controller: no process has this start time. */
  public void controllerDies() {
    try (Stream<Path> files = Files.list(state())) {
      for (Path entry : files.filter(file -> file.toString().endsWith(".process")).toList()) {
        String text = Files.readString(entry);
        Files.writeString(entry, text.replaceAll("controller.start=\\d+", "controller.start=1"));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Waits until each of its members has added on, and every loader got an answer. */
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

  /** As long as a test waits for anything. */
  public static Duration patience() {
    return PATIENCE;
  }
}
