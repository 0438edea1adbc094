package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Controllers that are the first process of a pid namespace, as in a container. */
@RequiresRoot("makes namespaces")
class JobInContainerTest {

  private static final String DONE = "all right";

  /** The file of an isolated process, in its own {@code /dev/shm}. */
  private static final Path FILE = Path.of("/dev/shm/count");

  @TempDir Path directory;

  @BeforeEach
  void findCriu() {
    RealCriu.assume();
  }

  private static void inContainer(Class<?> main, Object... arguments) throws Exception {
    TestJvm.assertEndsSaying(
        DONE,
        TestJvm.commandBy(
            TestJvm.inPidNamespace(),
            main,
            Arrays.stream(arguments).map(Object::toString).toArray(String[]::new)));
  }

  @Test
  void launchedJobIsDumpedAndRestoredAndItsExitCodeIsTold() throws Exception {
    inContainer(Launching.class, directory);
  }

  /** The main of the first process of the container. */
  static final class Launching {

    private Launching() {}

    /**
     * Launches, dumps, restores twice, and ends.
     *
     * @param args a directory
     */
    public static void main(String[] args) {
      Path directory = Path.of(args[0]);
      Path file = directory.resolve("count");
      try (Trainer trainer = new Trainer(directory)) {
        assertEquals(1, ProcessHandle.current().pid());
        LaunchedProcess job = trainer.launch(file, 2);
        for (int round = 1; round <= 2; round++) {
          int dumped = Trainer.count(file);
          ProcessImage image = job.process().suspend().dump(directory.resolve("image" + round));
          image.restore().resume();
          Trainer.awaitMore(file, dumped);
          Trainer.awaitMore(Trainer.loader(file, 2), 0);
        }
        int trained = 3;
        assertEquals(OptionalInt.of(trained), job.end(Trainer.PATIENCE).orElseThrow().code());
        Awaitility.await()
            .atMost(Trainer.PATIENCE)
            .until(() -> ends().isEmpty()); // and its orphans are reaped
      }
      System.out.println(DONE);
      System.exit(0);
    }

    private static List<ProcStat> ends() {
      List<ProcStat> dead = new ArrayList<>();
      ProcFs.processes()
          .forEach(pid -> ProcFs.stat(pid).filter(ProcStat::isDead).ifPresent(dead::add));
      return dead;
    }
  }

  @Test
  void isolatedImageIsRestoredWhereNobodyKnowsOfItsJob() throws Exception {
    try (Trainer trainer = new Trainer(directory)) {
      LaunchedProcess job = trainer.checkpoints.launch(trainer.isolated(FILE, 1).build());
      try {
        int pid = job.identity().pid();
        Path file = Path.of("/proc/" + pid + "/root" + FILE);
        Trainer.awaitMore(file, 0);
        Trainer.awaitMore(Trainer.loader(file, 1), 0);
        RunningProcess process = job.process();
        int taken = Trainer.count(file);
        process.snapshot(directory.resolve("image"));
        Path moved = directory.resolve("elsewhere");
        Files.move(directory.resolve("image"), moved);
        inContainer(Restoring.class, trainer.machine(), directory.resolve("other"), moved, taken);
        Trainer.awaitMore(file, taken);
      } finally {
        job.end(Duration.ZERO);
      }
    }
  }

  /** The main of the first process of the container, which has its own journal. */
  static final class Restoring {

    private Restoring() {}

    /**
     * Restores, and looks whether it goes on.
     *
     * @param args the machine, the state directory, the image, and how far it had counted
     */
    public static void main(String[] args) throws IOException {
      Path machine = Path.of(args[0]);
      CheckpointedProcess restored =
          GpuCheckpoints.builder()
              .cuda(machine)
              .stateDirectory(Path.of(args[1]))
              .build()
              .open(Path.of(args[2]))
              .restore();
      RunningProcess running = restored.resume();
      Path file = Path.of("/proc/" + running.pid() + "/root" + FILE);
      Trainer.awaitMore(file, Integer.parseInt(args[3]));
      Trainer.awaitMore(Trainer.loader(file, 1), 0);
      System.out.println(DONE);
      System.exit(0);
    }
  }
}
