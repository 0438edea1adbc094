package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.ImageProcess;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.ManifestMember;
import dev.gpuprocess.internal.manifest.ManifestStep;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.spi.CriuDriver;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** A manifest before the files of the image are known. */
final class ManifestDraft {

  private ManifestDraft() {}

  /**
   * Reads a process that CRIU holds; the process may run or be gone when the files are known.
   *
   * @param memory the files with GPU memory; null for none
   * @param machine the requirements of the process on a machine
   * @param steps the steps of the dump
   * @param lost the names of the attributes that the image lacks
   * @param now the time of the image
   * @return the function that makes the manifest of the files
   */
  static Function<List<ChecksummedFile>, ManifestData> of(
      TrackedTree tree,
      CriuDriver criu,
      ManifestData.Options kept,
      @Nullable String label,
      @Nullable List<MemoryFile> memory,
      ImageMachine machine,
      List<Step> steps,
      List<String> lost,
      Instant now) {
    // A root that is the only member is written in the format of earlier versions.
    boolean isTree = !tree.isSingle();
    Map<String, Long> gpuBytes = isTree ? Map.of() : held(tree.members().get(0));
    List<ManifestMember> members = isTree ? members(tree, kept.isIsolated()) : null;
    @Nullable List<ImageProcess> processes = DumpedProcesses.of(tree, kept.isIsolated());
    List<String> commandLine = ProcFs.commandLine(tree.root.pid());
    // Where a plugin moves the GPU state there need not be a CUDA driver.
    boolean usesCuda = tree.plugin() == null;
    int cudaVersion = usesCuda ? tree.context.cuda().version() : 0;
    String driverVersion = usesCuda ? tree.context.inventory().driverVersion().orElse("") : "";
    String criuVersion = criu.version().toString();
    List<ManifestStep> taken = steps.stream().map(ManifestDraft::step).toList();
    return files ->
        new ManifestData(
            kept.plugin() == null ? format(isTree, memory) : ManifestData.FORMAT_WITH_PLUGIN,
            now,
            tree.root.pid(),
            tree.root.startTicks(),
            commandLine,
            gpuBytes,
            cudaVersion,
            driverVersion,
            criuVersion,
            System.getProperty("os.version"),
            kept,
            label,
            files,
            memory,
            members,
            machine,
            processes,
            taken,
            lost.isEmpty() ? null : lost);
  }

  private static ManifestStep step(Step taken) {
    return new ManifestStep(
        taken.name(), taken.pid(), taken.duration().toNanos() / 1_000, Math.max(0, taken.bytes()));
  }

  private static int format(boolean isTree, @Nullable List<MemoryFile> memory) {
    if (isTree) {
      return ManifestData.FORMAT_OF_JOB;
    }
    return memory == null ? ManifestData.FORMAT : ManifestData.FORMAT_WITH_MEMORY;
  }

  private static List<ManifestMember> members(TrackedTree tree, boolean isolated) {
    return tree.members().stream()
        .map(
            each ->
                new ManifestMember(
                    isolated ? each.key.pid() : each.pid(), each.identity.startTicks(), held(each)))
        .toList();
  }

  private static Map<String, Long> held(TrackedProcess member) {
    Map<String, Long> bytes = new TreeMap<>();
    GpuUsage held = member.held();
    if (held.complete()) {
      held.known().forEach((gpu, known) -> bytes.put(gpu.text(), known));
    }
    return bytes;
  }
}
