package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.criu.proto.Rpc.cgroup_root;
import dev.gpuprocess.criu.proto.Rpc.criu_cg_mode;
import dev.gpuprocess.criu.proto.Rpc.criu_network_lock_method;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.join_namespace;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.CgroupMode;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Translates this library's options into those of CRIU's RPC, and into lines of its configuration
 * file where RPC has no field. Options without a default here are left to CRIU.
 */
public final class RpcOptions {

  private static final long MOST_SECONDS = 0xffff_ffffL / 1_000_000;

  private static final int DEBUG = 4;

  private static final int CLONE_NEWNET = 0x4000_0000;

  // CRIU's masks for the comparison of CPUs
  private static final int CPU_FPU = 1;
  private static final int CPU_ALL = 2;
  private static final int CPU_INSTRUCTIONS = 4;

  private RpcOptions() {}

  public static criu_opts.Builder of(DumpRequest request, NetworkLock networkLock) {
    DumpOptions options = request.options();
    CriuOptions criu = options.criu();
    criu_opts.Builder opts =
        common(criu)
            .setLeaveStopped(options.leaveStopped())
            .setLeaveRunning(options.leaveRunning())
            .setTcpSkipInFlight(criu.tcpSkipInFlight())
            .setLinkRemap(criu.linkRemap())
            .setGhostLimit((int) criu.ghostLimit())
            .setEvasiveDevices(criu.evasiveDevices())
            .setForceIrmap(criu.forceIrmap())
            .setTimeout(seconds(criu));
    criu.irmapScanPaths().forEach(path -> opts.addIrmapScanPaths(NativePath.text(path)));
    criu.freezeCgroup().map(Path::toString).ifPresent(opts::setFreezeCgroup);
    switch (networkLock) {
      case IPTABLES -> opts.setNetworkLock(criu_network_lock_method.IPTABLES);
      case NFTABLES -> opts.setNetworkLock(criu_network_lock_method.NFTABLES);
      case SKIP -> opts.setNetworkLock(criu_network_lock_method.SKIP);
      case AUTOMATIC -> {}
    }
    return opts;
  }

  /**
   * The freeze timeout in whole seconds, limited because CRIU computes it in microseconds in 32
   * bits ({@code opts.timeout}).
   */
  public static int seconds(CriuOptions criu) {
    return (int) Math.min(Durations.seconds(criu.freezeTimeout()), MOST_SECONDS);
  }

  public static criu_opts.Builder of(RestoreRequest request) {
    RestoreOptions options = request.options();
    CriuOptions criu = options.criu();
    criu_opts.Builder opts =
        common(criu)
            .setLeaveStopped(options.leaveStopped())
            .setShellJob(criu.shellJob())
            .setWeakSysctls(criu.weakSysctls())
            .setMntnsCompatMode(criu.mountCompatibility())
            .setSkipFileRwxCheck(criu.skipFileModeCheck())
            .setRstSibling(request.asChild());
    if (request.plugin() != null) {
      opts.setLogLevel(DEBUG); // where alone CRIU says that a plugin failed at last
    }
    criu.root().map(Path::toString).ifPresent(opts::setRoot);
    criu.joinedNamespaces().forEach((kind, file) -> opts.addJoinNs(joined(kind, file, criu)));
    criu.lsmProfile().ifPresent(opts::setLsmProfile);
    criu.lsmMountContext().ifPresent(opts::setLsmMountContext);
    return opts;
  }

  /** Returns the options of a dump that CRIU takes only from a configuration file. */
  static List<String> configuration(DumpRequest request) {
    CriuOptions criu = request.options().criu();
    List<String> lines = configuration(criu);
    if (criu.ghostFiemap()) {
      lines.add("ghost-fiemap");
    }
    return lines;
  }

  /** Returns the options of any request that CRIU takes only from a configuration file. */
  static List<String> configuration(CriuOptions criu) {
    List<String> lines = new ArrayList<>();
    if (criu.compareFilesBySize()) {
      lines.add("file-validation filesize");
    }
    if (criu.allowUprobes()) {
      lines.add("allow-uprobes");
    }
    return lines;
  }

  private static join_namespace joined(String kind, Path file, CriuOptions criu) {
    join_namespace.Builder message =
        join_namespace.newBuilder().setNs(kind).setNsFile(NativePath.text(file));
    if (kind.equals("user")) {
      criu.userNamespaceIds().ifPresent(message::setExtraOpt);
    }
    return message.build();
  }

  private static criu_opts.Builder common(CriuOptions criu) {
    criu_opts.Builder opts =
        criu_opts
            .newBuilder()
            .setLogLevel(criu.logLevel())
            .setNotifyScripts(true)
            .setTcpEstablished(criu.tcpEstablished())
            .setTcpClose(criu.tcpClose())
            .setExtUnixSk(criu.externalUnixSockets())
            .setFileLocks(criu.fileLocks())
            .setUnprivileged(criu.unprivileged())
            .setAutoExtMnt(criu.externalMounts())
            .setExtSharing(criu.sharedMounts())
            .setExtMasters(criu.masterMounts())
            .addAllEnableFs(criu.fileSystems());
    criu.skippedMounts().forEach(point -> opts.addSkipMnt(NativePath.text(point)));
    criu.external().forEach(each -> opts.addExternal(each.text()));
    addCgroups(opts, criu);
    criu.cpuCheck().ifPresent(check -> opts.setCpuCap(mask(check)));
    if (criu.emptyNetworkNamespace()) {
      opts.setEmptyNs(CLONE_NEWNET);
    }
    return opts;
  }

  private static void addCgroups(criu_opts.Builder opts, CriuOptions criu) {
    criu.cgroups().map(RpcOptions::mode).ifPresent(opts::setManageCgroupsMode);
    criu.cgroupRoots()
        .forEach(
            (controller, path) -> {
              cgroup_root.Builder root = cgroup_root.newBuilder().setPath(path);
              opts.addCgRoot(controller.isEmpty() ? root : root.setCtrl(controller));
            });
    criu.cgroupProperties().ifPresent(opts::setCgroupProps);
    opts.addAllCgroupDumpController(criu.cgroupControllers());
    criu.cgroupYard().map(NativePath::text).ifPresent(opts::setCgroupYard);
  }

  private static criu_cg_mode mode(CgroupMode mode) {
    return switch (mode) {
      case IGNORE -> criu_cg_mode.IGNORE;
      case NONE -> criu_cg_mode.CG_NONE;
      case PROPERTIES -> criu_cg_mode.PROPS;
      case SOFT -> criu_cg_mode.SOFT;
      case FULL -> criu_cg_mode.FULL;
      case STRICT -> criu_cg_mode.STRICT;
    };
  }

  public static int mask(CpuCheck check) {
    return switch (check) {
      case NONE -> 0;
      case FPU -> CPU_FPU;
      case INSTRUCTIONS -> CPU_FPU | CPU_INSTRUCTIONS;
      case ALL -> CPU_FPU | CPU_ALL | CPU_INSTRUCTIONS;
    };
  }
}
