package dev.gpuprocess.examples.cookbook;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.RetentionPolicy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The recipe of a node agent with real CRIU. */
@RequiresCriu
class NodeAgentTest {

  private static final Duration NEVER = Duration.ofDays(1);
  private static final Duration PATIENCE = Duration.ofSeconds(50);

  private Path directory;

  private SimulatedDriver machine;
  private Counter job;
  private GpuCheckpoints gpus;
  private NodeAgent agent;

  @BeforeEach
  void startJob(@TempDir Path given) {
    directory = given;
    machine = SimulatedDriver.create();
    job = Counter.start(machine);
    gpus =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(directory.resolve("state"))
            .build();
    agent = agent(NEVER);
    assertEquals(101, job.increment());
  }

  private NodeAgent agent(Duration interval) {
    return new NodeAgent(
        gpus, directory.resolve("images"), interval, RetentionPolicy.builder().keepLast(2).build());
  }

  @AfterEach
  void endJob() {
    agent.close();
    job.close();
    machine.close();
  }

  @Test
  void restoresADeadJobFromTheNewestIntactImage() throws IOException {
    RepeatedSnapshots snapshots = agent.watch("job-42", job.pid());
    for (int number = 102; number <= 104; number++) {
      snapshots.snapshotNow().verify();
      assertEquals(number, job.increment());
    }
    List<Path> images = images();
    assertEquals(2, images.size(), images.toString());
    Files.writeString(images.get(1).resolve("manifest.json"), "no manifest");
    job.kill();
    assertTrue(job.awaitExit(PATIENCE));
    assertEquals(job.pid(), agent.restore("job-42").orElseThrow().pid());
    assertEquals(103, job.increment());
    assertTrue(agent.restore("job-43").isEmpty());
  }

  @Test
  void recoversAfterADeadAgent() throws IOException, InterruptedException {
    Process dead =
        new ProcessBuilder(
                TestJvm.command(
                    AgentThatDies.class,
                    machine.directory().toString(),
                    gpus.stateDirectory().toString(),
                    Long.toString(job.pid())))
            .redirectErrorStream(true)
            .redirectOutput(directory.resolve("output").toFile())
            .start();
    assertEquals(AgentThatDies.STATUS, dead.waitFor(), () -> read(directory.resolve("output")));
    assertInstanceOf(CheckpointedProcess.class, gpus.inspect(job.pid()));
    agent.recover();
    assertEquals("RUNNING", gpus.inspect(job.pid()).state().name());
    assertEquals(102, job.increment());
  }

  @Test
  void makesSnapshotsAtTheInterval() {
    try (NodeAgent busy = agent(Duration.ofMillis(20))) {
      RepeatedSnapshots snapshots = busy.watch("job-42", job.pid());
      await().atMost(PATIENCE).until(() -> images().size() == 2);
      assertTrue(snapshots.isActive());
    }
    assertEquals(102, job.increment());
  }

  /** A controller that exits with a suspended job. */
  static final class AgentThatDies {

    static final int STATUS = 9;

    private AgentThatDies() {}

    public static void main(String[] args) {
      Path machine = Path.of(args[0]);
      CheckpointedProcess suspended =
          GpuCheckpoints.builder()
              .cuda(machine)
              .stateDirectory(Path.of(args[1]))
              .build()
              .process(Long.parseLong(args[2]))
              .suspend();
      Runtime.getRuntime().halt(suspended.pid() == Long.parseLong(args[2]) ? STATUS : 1);
    }
  }

  private static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Returns the images, oldest first. */
  private List<Path> images() throws IOException {
    Path of = directory.resolve("images").resolve("job-42");
    if (Files.notExists(of)) {
      return List.of();
    }
    try (Stream<Path> found = Files.list(of)) {
      return found.filter(image -> Files.exists(image.resolve("manifest.json"))).sorted().toList();
    }
  }
}
