package dev.gpuprocess.internal.extras;

import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.GpuPlugin;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The options of a dump that its restore must repeat: written to the manifest and read from it. */
public final class ManifestOptions {

  private ManifestOptions() {}

  /**
   * Returns the options that the manifest records.
   *
   * @param root the root of the tree
   * @param plugin the plugin of CRIU that takes part; null for none
   */
  public static ManifestData.Options of(
      DumpOptions dump,
      ProcessIdentity root,
      Optional<TreeMounts> mounts,
      @Nullable GpuPlugin plugin) {
    CriuOptions.Builder kept = dump.criu().toBuilder();
    if (Processes.stat(root).map(stat -> !stat.leadsSession()).orElse(false)) {
      kept.shellJob(true);
    }
    if (dump.criu().get(CriuSwitch.EXTERNAL).stream()
        .anyMatch(each -> each.text().startsWith("unix["))) {
      // The restore connects the socket by the name of its other end, unless it inherits another.
      kept.externalUnixSockets(true);
    }
    return new ManifestData.Options(
        ManifestData.Options.settings(kept.build()),
        mounts.map(TreeMounts::hostMounts).orElse(null),
        mounts.map(TreeMounts::boundMounts).orElse(null),
        plugin == null ? null : plugin.id());
  }
}
