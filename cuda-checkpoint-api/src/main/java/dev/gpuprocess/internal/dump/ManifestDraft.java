package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.room.Holdings;
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
   * @param memory what was handed over; null for nothing
   * @param now when the image is made
   * @return makes the manifest of the files
   */
  static Function<List<ImageFile>, Manifest> of(
      TrackedProcess target,
      CriuDriver criu,
      Manifest.Options kept,
      @Nullable String label,
      @Nullable List<MemoryFile> memory,
      Instant now) {
    Map<String, Long> gpuBytes = new TreeMap<>();
    Holdings held = target.held();
    if (held.complete()) {
      held.known().forEach((gpu, bytes) -> gpuBytes.put(gpu.text(), bytes));
    }
    List<String> commandLine = ProcFs.commandLine(target.pid());
    int cudaVersion = target.context.cuda().version();
    String driverVersion = target.context.inventory().driverVersion().orElse("");
    String criuVersion = criu.version().toString();
    return files ->
        new Manifest(
            memory == null ? Manifest.FORMAT : Manifest.FORMAT_WITH_MEMORY,
            now,
            target.pid(),
            target.identity.startTicks(),
            commandLine,
            gpuBytes,
            cudaVersion,
            driverVersion,
            criuVersion,
            System.getProperty("os.version"),
            kept,
            label,
            files,
            memory);
  }
}
