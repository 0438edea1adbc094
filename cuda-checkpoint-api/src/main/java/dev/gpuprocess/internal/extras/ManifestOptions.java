package dev.gpuprocess.internal.extras;

import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.options.CgroupMode;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
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
      Optional<Isolation> isolation,
      @Nullable GpuPlugin plugin) {
    boolean shellJob = Processes.stat(root).map(stat -> !stat.leadsSession()).orElse(false);
    return new ManifestData.Options(
        shellJob,
        dump.criu().tcpEstablished(),
        dump.criu().tcpClose(),
        dump.criu().externalUnixSockets(),
        dump.criu().fileLocks(),
        dump.criu().allowUprobes(),
        dump.criu().emptyNetworkNamespace(),
        dump.criu().externalMounts(),
        dump.criu().sharedMounts(),
        dump.criu().masterMounts(),
        dump.criu().fileSystems(),
        dump.criu().cgroups().map(CgroupMode::name).orElse(""),
        isolation.map(Isolation::names).orElse(null),
        plugin == null ? null : plugin.id());
  }

  /** Adds the options from the manifest; the caller's options for TCP and cgroups win. */
  public static RestoreOptions with(ManifestData.Options kept, RestoreOptions wanted) {
    RestoreOptions.Builder all =
        wanted.toBuilder()
            .criu(
                criu ->
                    criu.shellJob(kept.shellJob() || wanted.criu().shellJob())
                        .externalUnixSockets(
                            kept.externalUnixSockets() || wanted.criu().externalUnixSockets())
                        .fileLocks(kept.fileLocks() || wanted.criu().fileLocks())
                        .allowUprobes(kept.allowUprobes() || wanted.criu().allowUprobes())
                        .emptyNetworkNamespace(
                            kept.emptyNetworkNamespace() || wanted.criu().emptyNetworkNamespace())
                        .externalMounts(kept.externalMounts() || wanted.criu().externalMounts())
                        .sharedMounts(kept.sharedMounts() || wanted.criu().sharedMounts())
                        .masterMounts(kept.masterMounts() || wanted.criu().masterMounts())
                        .fileSystems(missing(kept, wanted.criu())));
    if (!wanted.criu().tcpClose() && !wanted.criu().tcpEstablished()) {
      // A dump had at most one of them.
      all.criu(c -> c.tcpEstablished(kept.tcpEstablished()).tcpClose(kept.tcpClose()));
    }
    if (!kept.cgroups().isEmpty()
        && wanted.criu().cgroups().isEmpty()
        && !wanted.criu().unprivileged()) {
      all.criu(c -> c.cgroups(CgroupMode.valueOf(kept.cgroups())));
    }
    return all.build();
  }

  /** Returns the file systems of the dump that the options of the restore do not have. */
  private static String[] missing(ManifestData.Options kept, CriuOptions wanted) {
    return kept.fileSystems().stream()
        .filter(each -> !wanted.fileSystems().contains(each))
        .toArray(String[]::new);
  }
}
