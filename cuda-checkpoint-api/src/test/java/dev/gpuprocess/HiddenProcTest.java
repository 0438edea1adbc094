package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.report.Finding;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A controller whose {@code /proc} has only processes, as with {@code ProcSubset=pid} of systemd.
 */
@SimulatedGpu
@RequiresRoot("mounts /proc")
class HiddenProcTest {

  private static final String MOUNT = "mount -t proc -o subset=pid proc /proc";

  @TempDir Path directory;

  @Test
  void controllerWithoutTheKernelsFiles_isToldWhatToMount(SimulatedDriver machine, Counter counter)
      throws Exception {
    Assumptions.assumeTrue(
        ProgramRun.of("unshare", "--mount", "sh", "-c", MOUNT).run().exit() == 0,
        "the kernel has no subset=pid");
    TestJvm.assertEndsSaying(
        "all right",
        TestJvm.commandBy(
            List.of("unshare", "--mount", "sh", "-ec", MOUNT + "; exec \"$0\" \"$@\""),
            Controller.class,
            machine.directory().toString(),
            directory.toString(),
            Long.toString(counter.pid())));
    assertEquals(101, counter.increment());
  }

  /** The controller. */
  static final class Controller {

    private Controller() {}

    /**
     * Tries to suspend.
     *
     * @param args the machine, a directory, the pid
     */
    public static void main(String[] args) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder().cuda(Path.of(args[0])).stateDirectory(Path.of(args[1])).build();
      MachineUnfitException refused =
          assertThrows(
              MachineUnfitException.class,
              () -> checkpoints.process(Long.parseLong(args[2])).suspend());
      assertEquals(MachineUnfitException.Reason.PROC_HIDDEN, refused.reason());
      String text = String.valueOf(refused.getMessage());
      assertTrue(text.contains("systemd: ProcSubset=all"), text);
      List<Finding> problems =
          checkpoints.doctor().findings().stream()
              .filter(each -> each.subject().equals("host memory"))
              .toList();
      assertTrue(problems.get(0).what().contains("ProcSubset=all"), problems::toString);
      System.out.println("all right");
      System.exit(0);
    }
  }
}
