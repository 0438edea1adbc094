package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.ImageMember;
import dev.gpuprocess.image.ImageProcess;
import dev.gpuprocess.image.ImageStep;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.progress.Step;
import dev.gpuprocess.spi.CriuDriver;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** What a manifest says of a process, before its files are known. */
final class ManifestDraft {

  private ManifestDraft() {}

  /**
   * Collects it from a process that CRIU holds; it may run or be gone when the files are known.
   *
   * @param memory the files with GPU memory; null for none
   * @param machine what it needs of a machine
   * @param steps that led into the image
   * @param now when the image is made
   * @return makes the manifest of the files
   */
  static Function<List<ImageFile>, Manifest> of(
      TrackedTree job,
      CriuDriver criu,
      Manifest.Options kept,
      @Nullable String label,
      @Nullable List<MemoryFile> memory,
      ImageMachine machine,
      List<Step> steps,
      Instant now) {
    boolean isOfJob = isOfJob(job);
    Map<String, Long> gpuBytes = isOfJob ? Map.of() : held(job.members().get(0));
    List<ImageMember> members = isOfJob ? members(job, kept.isIsolated()) : null;
    @Nullable List<ImageProcess> processes = DumpedProcesses.of(job, kept.isIsolated());
    List<String> commandLine = ProcFs.commandLine(job.root.pid());
    // Where a plugin moves the GPU state there need not be a CUDA driver.
    boolean usesCuda = job.plugin() == null;
    int cudaVersion = usesCuda ? job.context.cuda().version() : 0;
    String driverVersion = usesCuda ? job.context.inventory().driverVersion().orElse("") : "";
    String criuVersion = criu.version().toString();
    List<ImageStep> taken = steps.stream().map(ManifestDraft::step).toList();
    return files ->
        new Manifest(
            kept.plugin() == null ? format(isOfJob, memory) : Manifest.FORMAT_WITH_PLUGIN,
            now,
            job.root.pid(),
            job.root.startTicks(),
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
            taken);
  }

  private static ImageStep step(Step taken) {
    return new ImageStep(
        taken.name(), taken.pid(), taken.duration().toNanos() / 1_000, Math.max(0, taken.bytes()));
  }

  private static int format(boolean isOfJob, @Nullable List<MemoryFile> memory) {
    if (isOfJob) {
      return Manifest.FORMAT_OF_JOB;
    }
    return memory == null ? Manifest.FORMAT : Manifest.FORMAT_WITH_MEMORY;
  }

  /** The root alone is written as earlier versions wrote and read it. */
  private static boolean isOfJob(TrackedTree job) {
    return !job.isSingle();
  }

  private static List<ImageMember> members(TrackedTree job, boolean isolated) {
    return job.members().stream()
        .map(
            each ->
                new ImageMember(
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
