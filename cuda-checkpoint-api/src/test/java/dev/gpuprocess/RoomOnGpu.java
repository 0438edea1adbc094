package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;

import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import java.nio.file.Path;

/** A machine with one GPU, on which two patterns do not fit at a time. */
final class RoomOnGpu implements AutoCloseable {

  static final int MIB = 1 << 20;

  /** Of GPU memory of one pattern, without its context and the margin of a restore. */
  static final int PATTERN_MIB = 70;

  static final int GPU_MIB = 168;

  final SimulatedDriver machine;

  RoomOnGpu() {
    this(builder());
  }

  RoomOnGpu(SimulatedDriver.Builder builder) {
    machine = builder.create();
  }

  static SimulatedDriver.Builder builder() {
    return SimulatedDriver.builder().memory((long) GPU_MIB * MIB).contextMemory(16L * MIB);
  }

  GpuCheckpoints checkpoints(Path state) {
    return checkpoints(state, LibNvml.in(machine.directory()));
  }

  GpuCheckpoints checkpoints(Path state, GpuInventory inventory) {
    return GpuCheckpoints.builder()
        .cuda(LibCuda.in(machine.directory()), inventory)
        .stateDirectory(state)
        .build();
  }

  Pattern pattern() {
    return Pattern.start(machine, PATTERN_MIB);
  }

  static String whole() {
    return "ok %d bytes".formatted((long) PATTERN_MIB * MIB);
  }

  void awaitFree(int mebibytes) {
    GpuInventory nvml = LibNvml.in(machine.directory());
    await()
        .atMost(30, SECONDS)
        .until(() -> nvml.gpus().orElseThrow().get(0).freeBytes() >= (long) mebibytes * MIB);
  }

  @Override
  public void close() {
    machine.close();
  }
}
