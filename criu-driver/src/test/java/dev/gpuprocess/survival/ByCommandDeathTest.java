package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The JVM is killed while its CRIU, which was started by a command, waits for an answer. */
@NullUnmarked
class ByCommandDeathTest {

  /** Marks the JVM and the CRIU that it starts. */
  private static final String MARK = "GPUPROCESS_STATE_DIR";

  @TempDir Path directory;
  private Path images;
  private Path work;

  @BeforeEach
  void makeDirectories() throws IOException {
    RealCriu.assume();
    images = Files.createDirectory(directory.resolve("images"));
    work = Files.createDirectory(directory.resolve("work"));
  }

  private void assertDies(String stage, int pid) throws InterruptedException {
    List<String> arguments =
        new ArrayList<>(List.of(stage, Integer.toString(pid), images.toString(), work.toString()));
    arguments.addAll(RealCriu.byCommand());
    Process jvm =
        ChildJvm.start(Dying.class, directory, Map.of(MARK, directory.toString()), arguments);
    assertEquals(128 + 9, jvm.waitFor());
    Workload.await(() -> !criuIsAtWork(), "CRIU to end");
  }

  private boolean criuIsAtWork() {
    return !Signals.criuAt(directory).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {"pre-dump", "post-dump"})
  void dump_whoseJvmDies_leavesTheProcessRunning(String stage) throws InterruptedException {
    try (Workload workload = Workload.counter(directory)) {
      assertDies(stage, workload.pid());
      workload.assertGoesOn();
    }
  }

  @Test
  void restore_whoseJvmDies_leavesNothing_andCanBeRepeated() throws InterruptedException {
    CriuDriver driver = RpcCriuDriver.through(RealCriu.byCommand());
    try (Workload workload = Workload.counter(directory)) {
      driver.dump(
          new DumpRequest(workload.identity(), images, work, DumpOptions.ofDefaults()),
          DumpListener.NONE);
      assertDies("post-restore", workload.pid());
      Workload.await(() -> ProcessIdentity.of(workload.pid()).isEmpty(), "the pid to be free");
      ProcessIdentity restored =
          driver
              .restore(
                  new RestoreRequest(images, work, workload.pid(), Dying.AS_SHELL_JOB),
                  RestoreListener.NONE)
              .process();
      workload.assertGoesOn();
      Workload.end(restored);
      assertFalse(criuIsAtWork());
    }
  }

  /** A JVM that kills itself at a stage. */
  static final class Dying {

    static final RestoreOptions AS_SHELL_JOB =
        RestoreOptions.builder().criu(c -> c.shellJob(true)).build();

    private Dying() {}

    /**
     * Dumps or restores, and dies in it.
     *
     * @param args stage, pid, images, work, and the command
     */
    public static void main(String[] args) {
      String stage = args[0];
      int pid = Integer.parseInt(args[1]);
      Path images = Path.of(args[2]);
      Path work = Path.of(args[3]);
      CriuDriver driver = RpcCriuDriver.through(List.of(args).subList(4, args.length));
      if (stage.equals("post-restore")) {
        driver.restore(
            new RestoreRequest(images, work, pid, AS_SHELL_JOB),
            new RestoreListener() {
              @Override
              public void postRestore(int root) {
                Signals.killSelf();
              }
            });
      } else {
        driver.dump(
            new DumpRequest(
                ProcessIdentity.of(pid).orElseThrow(), images, work, DumpOptions.ofDefaults()),
            new DumpListener() {
              @Override
              public void preDump() {
                dieAt("pre-dump");
              }

              @Override
              public void postDump() {
                dieAt("post-dump");
              }

              private void dieAt(String reached) {
                if (stage.equals(reached)) {
                  Signals.killSelf();
                }
              }
            });
      }
    }
  }
}
