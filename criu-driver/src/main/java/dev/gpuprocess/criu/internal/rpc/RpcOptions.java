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
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreRequest;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.stream.Stream;

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

  /** A switch and the field of a request that it sets. */
  private record Field<T>(CriuSwitch<T> option, BiConsumer<criu_opts.Builder, T> setter) {

    void set(criu_opts.Builder opts, CriuOptions criu) {
      criu.find(option).ifPresent(value -> setter.accept(opts, value));
    }
  }

  private static final List<Field<?>> FIELDS =
      List.of(
          field(CriuSwitch.TCP_ESTABLISHED, criu_opts.Builder::setTcpEstablished),
          field(CriuSwitch.TCP_CLOSE, criu_opts.Builder::setTcpClose),
          field(CriuSwitch.SKIP_IN_FLIGHT, criu_opts.Builder::setTcpSkipInFlight),
          field(CriuSwitch.EXT_UNIX_SK, criu_opts.Builder::setExtUnixSk),
          field(CriuSwitch.EMPTY_NET_NS, (opts, on) -> opts.setEmptyNs(on ? CLONE_NEWNET : 0)),
          field(CriuSwitch.FILE_LOCKS, criu_opts.Builder::setFileLocks),
          field(CriuSwitch.LINK_REMAP, criu_opts.Builder::setLinkRemap),
          field(CriuSwitch.GHOST_LIMIT, (opts, bytes) -> opts.setGhostLimit((int) (long) bytes)),
          field(CriuSwitch.EVASIVE_DEVICES, criu_opts.Builder::setEvasiveDevices),
          field(CriuSwitch.FORCE_IRMAP, criu_opts.Builder::setForceIrmap),
          field(
              CriuSwitch.IRMAP_SCAN_PATH,
              (opts, all) -> all.forEach(path -> opts.addIrmapScanPaths(NativePath.text(path)))),
          field(
              CriuSwitch.EXTERNAL,
              (opts, all) -> all.forEach(each -> opts.addExternal(each.text()))),
          field(CriuSwitch.EXTERNAL_MOUNTS, criu_opts.Builder::setAutoExtMnt),
          field(CriuSwitch.ENABLE_EXTERNAL_SHARING, criu_opts.Builder::setExtSharing),
          field(CriuSwitch.ENABLE_EXTERNAL_MASTERS, criu_opts.Builder::setExtMasters),
          field(
              CriuSwitch.SKIP_MNT,
              (opts, all) -> all.forEach(point -> opts.addSkipMnt(NativePath.text(point)))),
          field(CriuSwitch.ENABLE_FS, criu_opts.Builder::addAllEnableFs),
          field(CriuSwitch.MANAGE_CGROUPS, (opts, mode) -> opts.setManageCgroupsMode(mode(mode))),
          field(CriuSwitch.CGROUP_ROOT, RpcOptions::addCgroupRoots),
          field(CriuSwitch.CGROUP_PROPS, criu_opts.Builder::setCgroupProps),
          field(CriuSwitch.CGROUP_DUMP_CONTROLLER, criu_opts.Builder::addAllCgroupDumpController),
          field(CriuSwitch.CGROUP_YARD, (opts, path) -> opts.setCgroupYard(NativePath.text(path))),
          field(CriuSwitch.CPU_CAP, (opts, check) -> opts.setCpuCap(mask(check))),
          field(
              CriuSwitch.FREEZE_CGROUP,
              (opts, path) -> opts.setFreezeCgroup(NativePath.text(path))),
          field(CriuSwitch.UNPRIVILEGED, criu_opts.Builder::setUnprivileged),
          field(CriuSwitch.LOG_LEVEL, criu_opts.Builder::setLogLevel),
          field(CriuSwitch.SHELL_JOB, criu_opts.Builder::setShellJob),
          field(CriuSwitch.ROOT, (opts, path) -> opts.setRoot(NativePath.text(path))),
          field(CriuSwitch.JOIN_NS, RpcOptions::addNamespaces),
          field(CriuSwitch.WEAK_SYSCTLS, criu_opts.Builder::setWeakSysctls),
          field(CriuSwitch.LSM_PROFILE, criu_opts.Builder::setLsmProfile),
          field(CriuSwitch.LSM_MOUNT_CONTEXT, criu_opts.Builder::setLsmMountContext),
          field(CriuSwitch.MNTNS_COMPAT_MODE, criu_opts.Builder::setMntnsCompatMode),
          field(CriuSwitch.SKIP_FILE_RWX_CHECK, criu_opts.Builder::setSkipFileRwxCheck));

  /** Those for which RPC has no field, with their lines in CRIU's configuration file. */
  private static final Map<CriuSwitch<Boolean>, String> LINES =
      Map.of(
          CriuSwitch.FILE_SIZE_VALIDATION, "file-validation filesize",
          CriuSwitch.ALLOW_UPROBES, "allow-uprobes",
          CriuSwitch.GHOST_FIEMAP, "ghost-fiemap");

  private RpcOptions() {}

  private static <T> Field<T> field(CriuSwitch<T> option, BiConsumer<criu_opts.Builder, T> setter) {
    return new Field<>(option, setter);
  }

  public static criu_opts.Builder of(DumpRequest request, NetworkLock networkLock) {
    criu_opts.Builder opts =
        of(request.options().criu(), CriuSwitch.Use.RESTORE)
            .setLeaveStopped(request.options().leaveStopped())
            .setLeaveRunning(request.options().leaveRunning())
            .setTimeout(seconds(request.options().criu()));
    switch (networkLock) {
      case IPTABLES -> opts.setNetworkLock(criu_network_lock_method.IPTABLES);
      case NFTABLES -> opts.setNetworkLock(criu_network_lock_method.NFTABLES);
      case SKIP -> opts.setNetworkLock(criu_network_lock_method.SKIP);
      case AUTOMATIC -> {}
    }
    return opts;
  }

  public static criu_opts.Builder of(RestoreRequest request) {
    criu_opts.Builder opts =
        of(request.options().criu(), CriuSwitch.Use.DUMP)
            .setLeaveStopped(request.options().leaveStopped())
            .setRstSibling(request.asChild());
    if (request.plugin() != null) {
      opts.setLogLevel(DEBUG); // where alone CRIU says that a plugin failed at last
    }
    return opts;
  }

  /** Returns the fields of all switches but those that only the other operation uses. */
  private static criu_opts.Builder of(CriuOptions criu, CriuSwitch.Use other) {
    criu_opts.Builder opts = criu_opts.newBuilder().setNotifyScripts(true);
    FIELDS.stream()
        .filter(field -> field.option().use() != other)
        .forEach(field -> field.set(opts, criu));
    return opts;
  }

  /**
   * The freeze timeout in whole seconds, limited because CRIU computes it in microseconds in 32
   * bits ({@code opts.timeout}).
   */
  public static int seconds(CriuOptions criu) {
    return (int) Math.min(Durations.seconds(criu.get(CriuSwitch.TIMEOUT)), MOST_SECONDS);
  }

  /** Returns the options of a dump that CRIU takes only from a configuration file. */
  static List<String> configuration(DumpRequest request) {
    return lines(request.options().criu()).toList();
  }

  /** Returns the options of a restore that CRIU takes only from a configuration file. */
  static List<String> configuration(RestoreRequest request) {
    return lines(request.options().criu())
        .filter(line -> !line.equals(LINES.get(CriuSwitch.GHOST_FIEMAP)))
        .toList();
  }

  private static Stream<String> lines(CriuOptions criu) {
    return LINES.entrySet().stream()
        .filter(line -> criu.has(line.getKey()))
        .map(Map.Entry::getValue)
        .sorted();
  }

  private static void addCgroupRoots(criu_opts.Builder opts, Map<String, String> roots) {
    roots.forEach(
        (controller, path) -> {
          cgroup_root.Builder root = cgroup_root.newBuilder().setPath(path);
          opts.addCgRoot(controller.isEmpty() ? root : root.setCtrl(controller));
        });
  }

  /** Adds namespaces; the ids in a user namespace follow its file. */
  private static void addNamespaces(criu_opts.Builder opts, Map<String, String> namespaces) {
    namespaces.forEach(
        (kind, file) -> {
          join_namespace.Builder message = join_namespace.newBuilder().setNs(kind);
          int end = kind.equals("user") ? file.indexOf(',') : -1;
          if (end >= 0) {
            message.setExtraOpt(file.substring(end + 1));
          }
          opts.addJoinNs(message.setNsFile(end < 0 ? file : file.substring(0, end)));
        });
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
