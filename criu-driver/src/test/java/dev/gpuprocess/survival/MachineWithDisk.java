package dev.gpuprocess.survival;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * A simulated machine with a tmpfs of its own for the GPU memory of suspended processes, and a disk
 * for images that can be made to hang.
 */
final class MachineWithDisk implements AutoCloseable {

  private static final long DISK_BYTES = 1L << 30;

  final SimulatedMachine machine;
  final TmpFs memory;
  final LoopMount disk;

  private MachineWithDisk(SimulatedMachine machine, TmpFs memory, LoopMount disk) {
    this.machine = machine;
    this.memory = memory;
    this.disk = disk;
  }

  /**
   * Makes one, or aborts the test where nothing can be mounted.
   *
   * @param memory options of the tmpfs, such as {@code size=1m}
   */
  static MachineWithDisk in(Path directory, String memory) throws IOException {
    SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
    TmpFs mounted =
        TmpFs.mountForSaveAreas(Files.createDirectory(directory.resolve("memory")), memory);
    return new MachineWithDisk(machine, mounted, LoopMount.in(directory, DISK_BYTES));
  }

  GpuCheckpoints checkpoints() {
    return checkpoints(memory);
  }

  GpuCheckpoints checkpoints(TmpFs memory) {
    return checkpoints(HostMemory.in(memory.point()));
  }

  GpuCheckpoints checkpoints(HostMemory memory) {
    return machine.checkpoints().toBuilder().hostMemory(memory).build();
  }

  /** Runs an action at the beginning of each step. */
  GpuCheckpoints at(String step, Runnable action) {
    StepListener listener =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            if (name.equals(step)) {
              action.run();
            }
          }
        };
    return checkpoints().toBuilder().listener(listener).build();
  }

  Path image() {
    return disk.path().resolve("image");
  }

  void fillDisk() {
    try {
      disk.fill();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  void assertNothingIsLeft(String... onDisk) {
    assertEquals(List.of(onDisk), SimulatedMachine.names(disk.path()));
    assertNoMemoryIsTaken(memory);
    assertEquals(List.of(), machine.journal());
  }

  /** Checks files without a name, which a process may still map or which are about to be closed. */
  static void assertNoMemoryIsTaken(TmpFs memory) {
    assertEquals(List.of(), SimulatedMachine.names(memory.point()));
    await()
        .atMost(20, SECONDS)
        .until(
            () ->
                memory.point().toFile().getTotalSpace() == memory.point().toFile().getFreeSpace());
  }

  @Override
  public void close() {
    disk.close();
    memory.close();
    machine.close();
  }
}
