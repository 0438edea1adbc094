package dev.gpuprocess.internal.machine;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.image.ImageMachine;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Reads what a manifest records of the machine of a dump. */
public final class MachineSurvey {

  private MachineSurvey() {}

  /**
   * Reads this machine and a tree that is frozen.
   *
   * @param gpus an inventory with deadlines
   * @param root of the tree
   * @param isIsolated whether the tree was launched isolated
   * @param carried files that are in the image
   * @return the needs of the tree, as far as they are known
   */
  public static ImageMachine of(
      GpuInventory gpus, int root, boolean isIsolated, Set<Path> carried) {
    Map<String, String> kinds = new TreeMap<>();
    for (Gpu each : gpus.read().map(GpuReading::gpus).orElse(List.of())) {
      kinds.put(each.uuid().text(), ThisMachine.recordedName(each.name()));
    }
    Cpu cpu = Cpu.here();
    return new ImageMachine(
        ThisMachine.ARCHITECTURE,
        cpu.name(),
        cpu.features(),
        kinds,
        MappedFiles.of(root, isIsolated, carried));
  }
}
