package dev.gpuprocess.survival;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.MemoryGroup;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.report.Diagnosis;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/**
 * A snapshot that is impossible is refused while the process is on its GPU; the doctor reports it.
 */
@OutsideUse("B3")
class LookFirstTest {

  private static final DumpOptions DEFAULTS = DumpOptions.ofDefaults();

  @TempDir Path directory;

  private void assertRefused(
      GpuCheckpointException.Reason reason,
      UnaryOperator<GpuCheckpoints> with,
      String place,
      DumpOptions options) {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      FaultPoints moments = new FaultPoints();
      GpuCheckpoints checkpoints = with.apply(machine.checkpoints(moments, false));
      Path image = machine.images().resolve(place);
      GpuCheckpointException refusal =
          assertReason(
              GpuCheckpointException.class,
              reason,
              () -> checkpoints.process(subject.pid()).snapshot(image, options));
      assertEquals(List.of(), moved(moments));
      Diagnosis diagnosis = checkpoints.doctor(subject.pid(), image, options);
      assertTrue(
          diagnosis.problems().stream()
              .anyMatch(
                  found ->
                      words(refusal.getMessage())
                          .equals(words(found.what()) + "; pid N is still running")),
          () -> refusal.getMessage() + " is not in " + diagnosis);
      assertEquals(Optional.empty(), subject.fault());
    }
  }

  /** The memory of a process changes a little all the time. */
  private static String words(String message) {
    return message.replaceAll("\\d+", "N");
  }

  private static List<String> moved(FaultPoints moments) {
    return moments.seen().stream().filter(moment -> !moment.endsWith("GetState")).toList();
  }

  @Test
  void snapshot_intoADirectoryThatIsNotEmpty() throws Exception {
    Files.createDirectories(directory.resolve("machine/images/full/of"));
    assertRefused(ImageException.Reason.DIRECTORY, same -> same, "full", DEFAULTS);
  }

  @Test
  void snapshot_belowAFile() throws Exception {
    Files.createDirectories(directory.resolve("machine/images"));
    Files.createFile(directory.resolve("machine/images/file"));
    assertRefused(ImageException.Reason.DIRECTORY, same -> same, "file/image", DEFAULTS);
  }

  @Test
  void snapshot_onAFullDisk() throws Exception {
    try (LoopMount disk = LoopMount.in(directory)) {
      disk.fill();
      assertRefused(
          ImageException.Reason.DISK_FULL,
          same -> same,
          disk.path().resolve("image").toString(),
          DEFAULTS);
    }
  }

  @Test
  void snapshot_onAReadOnlyDisk() throws Exception {
    try (LoopMount disk = LoopMount.in(directory)) {
      disk.makeReadOnly();
      assertRefused(
          ImageException.Reason.DIRECTORY,
          same -> same,
          disk.path().resolve("image").toString(),
          DEFAULTS);
    }
  }

  @Test
  void snapshot_withoutCriu() {
    Path nowhere = directory.resolve("no-criu");
    assertRefused(
        MachineUnfitException.Reason.NO_CRIU,
        checkpoints -> checkpoints.toBuilder().criu(new RpcCriuDriver(nowhere)).build(),
        "image",
        DEFAULTS);
  }

  /** The driver would copy the GPU memory into the process, and the kernel would kill it. */
  @Test
  void dumpAndSnapshot_beyondTheMemoryLimitOfTheProcess() throws Exception {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver);
        MemoryGroup group = MemoryGroup.create()) {
      group.add(subject.pid());
      group.limit(30L << 20);
      FaultPoints moments = new FaultPoints();
      RunningProcess running =
          machine.checkpoints(moments, false).toBuilder()
              .hostMemory(HostMemory.none())
              .build()
              .process(subject.pid());
      Path image = machine.images().resolve("image");
      for (Executable verb :
          List.<Executable>of(() -> running.snapshot(image), () -> running.dump(image))) {
        assertReason(FixAndRetryException.class, FixAndRetryException.Reason.HOST_MEMORY, verb);
      }
      assertEquals(List.of(), moved(moments));
      assertEquals(Optional.empty(), subject.fault());
      assertEquals(List.of(), DurableFiles.list(machine.images()));
    }
  }

  @Test
  void snapshot_belowMissingDirectories_makesThem() {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      Path image = machine.images().resolve("2026/job/image");
      machine.checkpoints().process(subject.pid()).snapshot(image).verify();
      assertEquals(Optional.empty(), subject.fault());
    }
  }
}
