package dev.gpuprocess.internal.extras;

import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.options.CgroupMode;
import dev.gpuprocess.options.Cgroups;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.Mounts;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.GpuPlugin;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
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
  public static Manifest.Options of(
      DumpOptions dump,
      ProcessIdentity root,
      Optional<Isolation> isolation,
      @Nullable GpuPlugin plugin) {
    boolean shellJob = Processes.stat(root).map(stat -> !stat.leadsSession()).orElse(false);
    return new Manifest.Options(
        shellJob,
        dump.tcpEstablished(),
        dump.tcpClose(),
        dump.externalUnixSockets(),
        dump.fileLocks(),
        dump.allowUprobes(),
        dump.emptyNetworkNamespace(),
        dump.mounts().autoDetect(),
        dump.mounts().allowShared(),
        dump.mounts().allowMasters(),
        dump.mounts().fileSystems(),
        dump.cgroups().map(cgroups -> cgroups.mode().name()).orElse(""),
        isolation.map(Isolation::names).orElse(null),
        plugin == null ? null : plugin.id());
  }

  /** Adds the options from the manifest; the caller's options for TCP and cgroups win. */
  public static RestoreOptions with(Manifest.Options kept, RestoreOptions wanted) {
    RestoreOptions.Builder all =
        wanted.toBuilder()
            .shellJob(kept.shellJob() || wanted.shellJob())
            .externalUnixSockets(kept.externalUnixSockets() || wanted.externalUnixSockets())
            .fileLocks(kept.fileLocks() || wanted.fileLocks())
            .allowUprobes(kept.allowUprobes() || wanted.allowUprobes())
            .emptyNetworkNamespace(kept.emptyNetworkNamespace() || wanted.emptyNetworkNamespace())
            .mounts(mounts(kept, wanted.mounts()));
    if (!wanted.tcpClose() && !wanted.tcpEstablished()) {
      // A dump had at most one of them.
      all.tcpEstablished(kept.tcpEstablished()).tcpClose(kept.tcpClose());
    }
    if (!kept.cgroups().isEmpty() && wanted.cgroups().isEmpty() && !wanted.unprivileged()) {
      all.cgroups(Cgroups.of(CgroupMode.valueOf(kept.cgroups())));
    }
    return all.build();
  }

  private static Mounts mounts(Manifest.Options kept, Mounts wanted) {
    List<String> fileSystems =
        Stream.concat(kept.fileSystems().stream(), wanted.fileSystems().stream())
            .distinct()
            .toList();
    return new Mounts(
        kept.externalMounts() || wanted.autoDetect(),
        kept.sharedMounts() || wanted.allowShared(),
        kept.masterMounts() || wanted.allowMasters(),
        wanted.skipped(),
        fileSystems);
  }
}
