package dev.gpuprocess.criu;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.UnsupportedOptionException;
import dev.gpuprocess.options.CgroupMode;
import dev.gpuprocess.options.Cgroups;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.FileValidation;
import dev.gpuprocess.options.JoinedNamespace;
import dev.gpuprocess.options.LsmProfile;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.Tls;
import dev.gpuprocess.options.TreeOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * Our options as arguments of CRIU's command line, each with its value in one argument: no value is
 * taken for an option, whatever it begins with.
 */
final class CliOptions {

  /** CRIU looks for this anywhere in any argument, also in the value of another option. */
  private static final String SEEN_EVERYWHERE = "--config=";

  private static final String CURE = "; use the driver over RPC (RpcCriuDriver)";

  private final String operation;
  private final int pid;
  private final List<String> arguments = new ArrayList<>();

  private CliOptions(String operation, int pid) {
    this.operation = operation;
    this.pid = pid;
  }

  /**
   * Those of a dump.
   *
   * @throws UnsupportedOptionException when one of them cannot be said on the command line
   */
  static List<String> of(DumpOptions options, NetworkLock networkLock, int pid) {
    CliOptions all = new CliOptions("dump", pid);
    all.refuse(
        options.lazyPages().isPresent(),
        "DumpOptions.lazyPages: nothing here waits for the pages of a command to be fetched");
    all.add(options);
    all.flag("leave-running", options.leaveRunning());
    all.flag("skip-in-flight", options.tcpSkipInFlight());
    all.flag("link-remap", options.linkRemap());
    all.value("ghost-limit", options.ghostLimit());
    all.flag("ghost-fiemap", options.ghostFiemap());
    all.flag("evasive-devices", options.evasiveDevices());
    all.flag("force-irmap", options.forceIrmap());
    all.value("timeout", RpcOptions.seconds(options));
    all.flag("track-mem", options.trackMemory());
    options.pageServer().ifPresent(all::add);
    all.values("irmap-scan-path", options.irmapScanPaths());
    all.value("freeze-cgroup", options.freezeCgroup());
    all.value("prev-images-dir", options.parentImages());
    if (networkLock != NetworkLock.AUTOMATIC) {
      all.value("network-lock", networkLock.name().toLowerCase(Locale.ROOT));
    }
    return all.arguments;
  }

  /**
   * Those of a restore.
   *
   * @throws UnsupportedOptionException when one of them cannot be said on the command line
   */
  static List<String> of(RestoreOptions options, int pid) {
    CliOptions all = new CliOptions("restore", pid);
    all.refuse(
        !options.inherit().isEmpty(),
        "RestoreOptions.inherit: descriptors of this JVM do not reach a CRIU that is started as a"
            + " command");
    all.refuse(
        options.orphanTerminals(),
        "RestoreOptions.orphanTerminals: a CRIU that is started as a command hands out no"
            + " terminals");
    all.refuse(
        options.lazyPages(),
        "RestoreOptions.lazyPages: its helper is started by the driver over RPC alone");
    all.refuse(
        options.asChild(),
        "RestoreOptions.asChild: the parent of a CRIU that is started as a command need not be this"
            + " JVM");
    all.add(options);
    all.flag("shell-job", options.shellJob());
    all.flag("weak-sysctls", options.weakSysctls());
    all.flag("mntns-compat-mode", options.mountCompatibility());
    all.flag("skip-file-rwx-check", options.skipFileModeCheck());
    all.value("root", options.root());
    options.join().forEach(all::join);
    all.value("lsm-profile", options.lsmProfile().map(LsmProfile::text));
    all.value("lsm-mount-context", options.lsmMountContext());
    return all.arguments;
  }

  private void add(PageEndpoint server) {
    flag("page-server", true);
    value("address", server.host());
    value("port", server.port());
    Tls tls = server.tls();
    if (tls != null) {
      flag("tls", true);
      value("tls-cacert", Optional.ofNullable(tls.authority()));
      value("tls-cacrl", Optional.ofNullable(tls.revocations()));
      value("tls-cert", Optional.ofNullable(tls.certificate()));
      value("tls-key", Optional.ofNullable(tls.key()));
      flag("tls-no-cn-verify", !tls.nameChecked());
    }
  }

  private void add(TreeOptions options) {
    value("verbosity", options.logLevel());
    flag("tcp-established", options.tcpEstablished());
    flag("tcp-close", options.tcpClose());
    flag("ext-unix-sk", options.externalUnixSockets());
    flag("file-locks", options.fileLocks());
    flag("leave-stopped", options.leaveStopped());
    flag("auto-dedup", options.autoDedup());
    flag("unprivileged", options.unprivileged());
    flag("allow-uprobes", options.allowUprobes());
    flag("enable-external-sharing", options.mounts().allowShared());
    flag("enable-external-masters", options.mounts().allowMasters());
    if (options.mounts().autoDetect()) {
      value("ext-mount-map", "auto");
    }
    values("skip-mnt", options.mounts().skipped());
    values("enable-fs", options.mounts().fileSystems());
    options.external().forEach(each -> value("external", each.text()));
    options.cgroups().ifPresent(this::add);
    value("cpu-cap", options.cpuCheck().map(CliOptions::word));
    value("file-validation", options.fileValidation().map(CliOptions::word));
    if (options.emptyNetworkNamespace()) {
      value("empty-ns", "net");
    }
  }

  private void add(Cgroups cgroups) {
    value("manage-cgroups", word(cgroups.mode()));
    cgroups
        .roots()
        .forEach(
            (controller, path) -> {
              refuse(
                  controller.contains(":") || (controller.isEmpty() && path.contains(":")),
                  "Cgroups.root: the command line cannot tell a controller from a path in "
                      + controller
                      + path);
              value("cgroup-root", controller.isEmpty() ? path : controller + ":" + path);
            });
    value("cgroup-props", Optional.ofNullable(cgroups.properties()));
    values("cgroup-dump-controller", cgroups.controllers());
    value("cgroup-yard", Optional.ofNullable(cgroups.yard()));
  }

  private void join(JoinedNamespace joined) {
    String file = joined.file().toString();
    refuse(
        file.contains(","),
        "RestoreOptions.join: the command line has no way to say the comma in " + file);
    String ids = joined.userAndGroup() == null ? "" : "," + joined.userAndGroup();
    value("join-ns", joined.kind().name().toLowerCase(Locale.ROOT) + ":" + file + ids);
  }

  private static String word(CgroupMode mode) {
    return mode == CgroupMode.PROPERTIES ? "props" : mode.name().toLowerCase(Locale.ROOT);
  }

  /** CRIU begins with what it checks by default; {@code none} takes that away. */
  private static String word(CpuCheck check) {
    return switch (check) {
      case NONE -> "none";
      case FPU -> "none,fpu";
      case INSTRUCTIONS -> "none,fpu,ins";
      case ALL -> "all";
    };
  }

  private static String word(FileValidation how) {
    return switch (how) {
      case SIZE -> "filesize";
      case BUILD_ID -> "buildid";
    };
  }

  private void flag(String name, boolean set) {
    if (set) {
      arguments.add("--" + name);
    }
  }

  private void value(String name, Object value) {
    String text = value.toString();
    refuse(
        text.contains(SEEN_EVERYWHERE) || text.indexOf('\0') >= 0,
        "the value of CRIU's option " + name + " cannot be said on the command line: " + text);
    arguments.add("--" + name + "=" + text);
  }

  private void value(String name, Optional<?> value) {
    value.ifPresent(present -> value(name, present));
  }

  private void values(String name, List<?> values) {
    values.forEach(each -> value(name, each));
  }

  private void refuse(boolean impossible, String what) {
    if (impossible) {
      throw new UnsupportedOptionException(
          "%s of process %s did not begin: %s%s".formatted(operation, pid, what, CURE),
          Failure.of(operation, pid));
    }
  }
}
