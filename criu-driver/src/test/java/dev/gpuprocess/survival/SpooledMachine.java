package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.progress.StepListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A simulated machine with a tmpfs for spools, and a disk for images that can be made to hang. */
final class SpooledMachine implements AutoCloseable {

  private static final long DISK_BYTES = 512L << 20;

  final SimulatedMachine machine;
  final TmpFs memory;
  final LoopMount disk;

  private SpooledMachine(SimulatedMachine machine, TmpFs memory, LoopMount disk) {
    this.machine = machine;
    this.memory = memory;
    this.disk = disk;
  }

  /**
   * Makes one, or aborts the test where nothing can be mounted.
   *
   * @param memory options of the tmpfs, such as {@code size=1m}
   */
  static SpooledMachine in(Path directory, String memory) throws IOException {
    SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
    TmpFs spools = TmpFs.mount(Files.createDirectory(directory.resolve("memory")), memory);
    return new SpooledMachine(machine, spools, LoopMount.in(directory, DISK_BYTES));
  }

  GpuCheckpoints checkpoints() {
    return checkpoints(memory);
  }

  GpuCheckpoints checkpoints(TmpFs spools) {
    return machine.checkpoints().toBuilder().snapshotSpool(spools.point()).build();
  }

  /** Does something each time that a step begins. */
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
    assertEquals(List.of(), SimulatedMachine.names(memory.point()));
    assertEquals(List.of(), machine.journal());
  }

  @Override
  public void close() {
    disk.close();
    memory.close();
    machine.close();
  }
}
