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

/** What a manifest says of the machine of a dump. */
public final class MachineSurvey {

  private MachineSurvey() {}

  /**
   * Looks at this machine and at a tree that stands still.
   *
   * @param gpus asked within a deadline
   * @param root of the tree
   * @param isIsolated whether it was launched isolated
   * @param carried files that the image holds
   * @return what the tree needs; what is not known is left out
   */
  public static ImageMachine of(
      GpuInventory gpus, int root, boolean isIsolated, Set<Path> carried) {
    Map<String, String> kinds = new TreeMap<>();
    for (Gpu each : gpus.read().map(GpuReading::gpus).orElse(List.of())) {
      kinds.put(each.uuid().text(), Names.recorded(each.name()));
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
