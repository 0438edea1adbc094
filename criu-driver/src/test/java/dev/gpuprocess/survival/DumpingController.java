package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A controller in a JVM of its own that resumes what it has suspended when it exits, and gets a
 * SIGTERM in the middle of a dump. It goes on with the dump when its exit has begun.
 */
final class DumpingController {

  static final int SIGTERM_EXIT = 128 + 15;

  private static final String BEGUN = "begun";
  private static final Duration PATIENCE = Duration.ofMinutes(3);

  /** The kind and the end of the dump. */
  enum Way {
    SUSPENDED,
    RUNNING,
    SUSPENDED_AND_CANCELLED,
    RUNNING_AND_CANCELLED;

    boolean isCancelled() {
      return this == SUSPENDED_AND_CANCELLED || this == RUNNING_AND_CANCELLED;
    }
  }

  private DumpingController() {}

  /** Runs until its exit code is that of a SIGTERM. */
  static void run(SimulatedMachine machine, Subject subject, Way way)
      throws IOException, InterruptedException {
    Process controller =
        ChildJvm.start(
            DumpingController.class,
            machine.temporary(),
            Map.of(),
            List.of(
                machine.driver.directory().toString(),
                machine.state().toString(),
                Integer.toString(subject.pid()),
                machine.image().toString(),
                way.name()));
    try {
      String line = controller.inputReader().readLine();
      if (!BEGUN.equals(line)) {
        throw new IllegalStateException("the controller did not begin: " + line);
      }
      controller.destroy();
      if (!controller.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)
          || controller.exitValue() != SIGTERM_EXIT) {
        throw new IllegalStateException("the controller did not exit as it should");
      }
    } finally {
      controller.destroyForcibly();
    }
  }

  /** Dumps, and waits for the exit of the JVM. */
  public static void main(String[] args) throws InterruptedException {
    CountDownLatch exiting = new CountDownLatch(1);
    Runtime.getRuntime().addShutdownHook(new Thread(exiting::countDown));
    Way way = Way.valueOf(args[4]);
    Cancellation cancellation = new Cancellation();
    GpuCheckpoints checkpoints =
        SimulatedMachine.checkpoints(Path.of(args[0]), Path.of(args[1]), new FaultPoints())
            .toBuilder()
            .criu(
                WatchedCriu.of(
                    new RpcCriuDriver(),
                    moment -> {
                      if (moment.equals(WatchedCriu.STAGE + "postDump")) {
                        System.out.println(BEGUN);
                        await(exiting);
                        if (way.isCancelled()) {
                          cancellation.cancel();
                        }
                      }
                    },
                    PATIENCE))
            .resumeOnExit(true)
            .build();
    DumpOptions options = DumpOptions.builder().cancellation(cancellation).build();
    RunningProcess running = checkpoints.process(Long.parseLong(args[2]));
    Path image = Path.of(args[3]);
    if (way == Way.RUNNING || way == Way.RUNNING_AND_CANCELLED) {
      running.dump(image, options);
    } else {
      try (CheckpointedProcess suspended = running.suspend()) {
        suspended.dump(image, options);
      }
    }
    new CountDownLatch(1).await();
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
