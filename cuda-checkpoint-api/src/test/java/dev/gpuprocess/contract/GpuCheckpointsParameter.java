package dev.gpuprocess.contract;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpuParameter;

/** Gives tests the checkpoints of their machine, with the machine's state directory. */
public final class GpuCheckpointsParameter implements SimulatedGpuParameter<GpuCheckpoints> {

  @Override
  public Class<GpuCheckpoints> type() {
    return GpuCheckpoints.class;
  }

  @Override
  public GpuCheckpoints on(SimulatedDriver machine) {
    return GpuCheckpoints.builder()
        .cuda(machine.directory())
        .stateDirectory(machine.stateDirectory())
        .build();
  }
}
