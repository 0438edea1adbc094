package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.google.protobuf.Descriptors.FieldDescriptor;
import dev.gpuprocess.criu.internal.rpc.RpcOptions;
import dev.gpuprocess.criu.proto.Rpc.cgroup_root;
import dev.gpuprocess.criu.proto.Rpc.criu_cg_mode;
import dev.gpuprocess.criu.proto.Rpc.criu_network_lock_method;
import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.join_namespace;
import dev.gpuprocess.options.CgroupMode;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Each typed option sets its field of CRIU's RPC and no other; impossible options are refused. */
@Tag("jdk")
class RpcOptionsTest {

  private static final Path FILE = Path.of("/x");
  private static final String PAGE_SERVER = "the memory is in the image, which can be copied";

  private static final String LAZY =
      "a process that fetches its memory later is whole on no host, and its memory is anybody's";

  /** Fields that no option sets, and why. */
  private static final Map<String, String> NOT_AN_OPTION =
      Map.ofEntries(
          Map.entry("images_dir_fd", "from the request"),
          Map.entry("images_dir", "images_dir_fd serves"),
          Map.entry("work_dir_fd", "from the request"),
          Map.entry("pid", "from the request"),
          Map.entry("log_file", "the driver's name in the work directory"),
          Map.entry("log_to_stderr", "there is a log file"),
          Map.entry("notify_scripts", "always on: listeners"),
          Map.entry("config_file", "written by the driver for what RPC does not carry"),
          Map.entry(
              "inherit_fd", "numbers in CRIU, known when it is started: InheritedDescriptors"),
          Map.entry("veths", "deprecated: External.restoredVeth"),
          Map.entry("ext_mnt", "deprecated: External.mount"),
          Map.entry("unix_sk_ino", "deprecated: External.unixSocket"),
          Map.entry("manage_cgroups", "manage_cgroups_mode serves"),
          Map.entry("cgroup_props_file", "cgroup_props serves"),
          Map.entry("orphan_pts_master", "a terminal whose other end is outside is refused"),
          Map.entry("auto_dedup", "an image can be restored again"),
          Map.entry("status_fd", "for lazy pages"),
          Map.entry("lazy_pages", LAZY),
          Map.entry("ps", PAGE_SERVER),
          Map.entry("tls", PAGE_SERVER),
          Map.entry("tls_cacert", PAGE_SERVER),
          Map.entry("tls_cacrl", PAGE_SERVER),
          Map.entry("tls_cert", PAGE_SERVER),
          Map.entry("tls_key", PAGE_SERVER),
          Map.entry("tls_no_cn_verify", PAGE_SERVER),
          Map.entry("track_mem", "every image is whole"),
          Map.entry("parent_img", "every image is whole"),
          Map.entry("pre_dump_mode", "every image is whole"),
          Map.entry("display_stats", "the statistics are read from their file: DumpReport"),
          Map.entry("exec_cmd", "CRIU would become that program, and is ours to reap"),
          Map.entry("pidfd_store_sk", "for pre-dumps: every image is whole"));

  /** An option and what it has to give. */
  private record Row(String name, criu_opts given, criu_opts expected) {

    static Row dump(
        String name, UnaryOperator<DumpOptions.Builder> option, Consumer<criu_opts.Builder> field) {
      return row(name, of(option), of(options -> options), field);
    }

    static Row restore(
        String name,
        UnaryOperator<RestoreOptions.Builder> option,
        Consumer<criu_opts.Builder> field) {
      RestoreOptions options = option.apply(RestoreOptions.builder()).build();
      return row(name, of(options), of(RestoreOptions.ofDefaults()), field);
    }

    /** What a request has besides its options. */
    static Row ofRequest(
        String name, UnaryOperator<RestoreRequest> change, Consumer<criu_opts.Builder> field) {
      RestoreRequest plain = new RestoreRequest(FILE, FILE, 7, RestoreOptions.ofDefaults());
      return row(name, RpcOptions.of(change.apply(plain)), RpcOptions.of(plain), field);
    }

    private static criu_opts.Builder of(RestoreOptions options) {
      return RpcOptions.of(new RestoreRequest(FILE, FILE, 7, options));
    }

    private static criu_opts.Builder of(UnaryOperator<DumpOptions.Builder> option) {
      return of(request(option.apply(DumpOptions.builder()).build()));
    }

    private static criu_opts.Builder of(DumpRequest request) {
      return RpcOptions.of(request, request.options().criu().get(CriuSwitch.NETWORK_LOCK));
    }

    private static Row row(
        String name,
        criu_opts.Builder given,
        criu_opts.Builder without,
        Consumer<criu_opts.Builder> field) {
      field.accept(without);
      // Everything has to be there that protobuf insists on.
      return new Row(name, given.setImagesDirFd(-1).build(), without.setImagesDirFd(-1).build());
    }
  }

  private static Stream<Row> rows() {
    return Stream.of(dumps(), restores(), both(), mountsAndCgroups()).flatMap(rows -> rows);
  }

  private static Stream<Row> dumps() {
    return Stream.of(
        Row.dump("leave_running", o -> o.leaveRunning(true), f -> f.setLeaveRunning(true)),
        Row.dump(
            "tcp_skip_in_flight",
            o -> o.criu(c -> c.tcpSkipInFlight(true)),
            f -> f.setTcpSkipInFlight(true)),
        Row.dump("link_remap", o -> o.criu(c -> c.linkRemap(true)), f -> f.setLinkRemap(true)),
        Row.dump("ghost_limit", o -> o.criu(c -> c.ghostLimit(5)), f -> f.setGhostLimit(5)),
        Row.dump(
            "ghost_limit", o -> o.criu(c -> c.ghostLimit(0xffff_ffffL)), f -> f.setGhostLimit(-1)),
        Row.dump(
            "evasive_devices",
            o -> o.criu(c -> c.set("evasive-devices")),
            f -> f.setEvasiveDevices(true)),
        Row.dump("force_irmap", o -> o.criu(c -> c.forceIrmap(true)), f -> f.setForceIrmap(true)),
        Row.dump(
            "irmap_scan_paths",
            o -> o.criu(c -> c.set("irmap-scan-path=/x")),
            f -> f.addIrmapScanPaths("/x")),
        Row.dump(
            "freeze_cgroup",
            o -> o.criu(c -> c.set("freeze-cgroup=/x")),
            f -> f.setFreezeCgroup("/x")),
        Row.dump(
            "timeout",
            o -> o.criu(c -> c.freezeTimeout(Duration.ofMillis(1001))),
            f -> f.setTimeout(2)),
        Row.dump(
            "network_lock",
            o -> o.criu(c -> c.networkLock(NetworkLock.IPTABLES)),
            f -> f.setNetworkLock(criu_network_lock_method.IPTABLES)),
        Row.dump(
            "network_lock",
            o -> o.criu(c -> c.networkLock(NetworkLock.NFTABLES)),
            f -> f.setNetworkLock(criu_network_lock_method.NFTABLES)),
        Row.dump(
            "network_lock",
            o -> o.criu(c -> c.networkLock(NetworkLock.SKIP)),
            f -> f.setNetworkLock(criu_network_lock_method.SKIP)));
  }

  private static Stream<Row> restores() {
    return Stream.of(
        Row.restore("shell_job", o -> o.criu(c -> c.shellJob(true)), f -> f.setShellJob(true)),
        Row.restore("root", o -> o.criu(c -> c.root(FILE)), f -> f.setRoot("/x")),
        Row.restore(
            "weak_sysctls", o -> o.criu(c -> c.set("weak-sysctls")), f -> f.setWeakSysctls(true)),
        Row.restore(
            "mntns_compat_mode",
            o -> o.criu(c -> c.mountCompatibility(true)),
            f -> f.setMntnsCompatMode(true)),
        Row.restore(
            "skip_file_rwx_check",
            o -> o.criu(c -> c.set("skip-file-rwx-check")),
            f -> f.setSkipFileRwxCheck(true)),
        Row.ofRequest("rst_sibling", r -> r.asChild(true), f -> f.setRstSibling(true)),
        Row.restore(
            "lsm_profile",
            o -> o.criu(c -> c.set("lsm-profile=apparmor:p")),
            f -> f.setLsmProfile("apparmor:p")),
        Row.restore(
            "lsm_mount_context",
            o -> o.criu(c -> c.set("lsm-mount-context=c")),
            f -> f.setLsmMountContext("c")),
        Row.restore(
            "join_ns",
            o -> o.criu(c -> c.set("join-ns=net:/x").set("join-ns=user:/x,1,2")),
            f ->
                f.addJoinNs(join_namespace.newBuilder().setNs("net").setNsFile("/x"))
                    .addJoinNs(
                        join_namespace
                            .newBuilder()
                            .setNs("user")
                            .setNsFile("/x")
                            .setExtraOpt("1,2"))));
  }

  private static Stream<Row> both() {
    return Stream.of(
        Row.dump("leave_stopped", o -> o.leaveStopped(true), f -> f.setLeaveStopped(true)),
        Row.restore("leave_stopped", o -> o.leaveStopped(true), f -> f.setLeaveStopped(true)),
        Row.dump(
            "tcp_established",
            o -> o.criu(c -> c.tcpEstablished(true)),
            f -> f.setTcpEstablished(true)),
        Row.restore(
            "tcp_established",
            o -> o.criu(c -> c.tcpEstablished(true)),
            f -> f.setTcpEstablished(true)),
        Row.dump("tcp_close", o -> o.criu(c -> c.tcpClose(true)), f -> f.setTcpClose(true)),
        Row.restore("tcp_close", o -> o.criu(c -> c.tcpClose(true)), f -> f.setTcpClose(true)),
        Row.dump(
            "ext_unix_sk",
            o -> o.criu(c -> c.externalUnixSockets(true)),
            f -> f.setExtUnixSk(true)),
        Row.restore(
            "ext_unix_sk",
            o -> o.criu(c -> c.externalUnixSockets(true)),
            f -> f.setExtUnixSk(true)),
        Row.dump("file_locks", o -> o.criu(c -> c.fileLocks(true)), f -> f.setFileLocks(true)),
        Row.restore("file_locks", o -> o.criu(c -> c.fileLocks(true)), f -> f.setFileLocks(true)),
        Row.dump(
            "unprivileged", o -> o.criu(c -> c.unprivileged(true)), f -> f.setUnprivileged(true)),
        Row.restore(
            "unprivileged", o -> o.criu(c -> c.unprivileged(true)), f -> f.setUnprivileged(true)),
        Row.dump("log_level", o -> o.criu(c -> c.logLevel(4)), f -> f.setLogLevel(4)),
        Row.restore("log_level", o -> o.criu(c -> c.logLevel(1)), f -> f.setLogLevel(1)),
        Row.dump("cpu_cap", o -> o.criu(c -> c.cpuCheck(CpuCheck.NONE)), f -> f.setCpuCap(0)),
        Row.dump("cpu_cap", o -> o.criu(c -> c.cpuCheck(CpuCheck.FPU)), f -> f.setCpuCap(1)),
        Row.restore(
            "cpu_cap", o -> o.criu(c -> c.cpuCheck(CpuCheck.INSTRUCTIONS)), f -> f.setCpuCap(5)),
        Row.restore("cpu_cap", o -> o.criu(c -> c.cpuCheck(CpuCheck.ALL)), f -> f.setCpuCap(7)),
        Row.dump(
            "external",
            o -> o.criu(c -> c.external(External.unixSocket(7), External.device(1, 2, "d"))),
            f -> f.addExternal("unix[7]").addExternal("dev[1/2]:d")),
        Row.restore(
            "external",
            o -> o.criu(c -> c.external(External.restoredMount("m", FILE))),
            f -> f.addExternal("mnt[m]:/x")),
        Row.dump(
            "empty_ns", o -> o.criu(c -> c.set("empty-ns=net")), f -> f.setEmptyNs(0x4000_0000)),
        Row.restore(
            "empty_ns", o -> o.criu(c -> c.set("empty-ns=net")), f -> f.setEmptyNs(0x4000_0000)));
  }

  private static Stream<Row> mountsAndCgroups() {
    return Stream.concat(
        Stream.of(CgroupMode.values())
            .map(
                mode ->
                    Row.dump(
                        "manage_cgroups_mode",
                        o -> o.criu(c -> c.cgroups(mode)),
                        f -> f.setManageCgroupsMode(number(mode)))),
        Stream.of(
            Row.dump(
                "auto_ext_mnt, ext_sharing, ext_masters",
                o ->
                    o.criu(
                        c ->
                            c.set("external-mounts")
                                .set("enable-external-sharing")
                                .set("enable-external-masters")),
                f -> f.setAutoExtMnt(true).setExtSharing(true).setExtMasters(true)),
            Row.restore(
                "skip_mnt, enable_fs",
                o -> o.criu(c -> c.set("skip-mnt=/x").set("enable-fs=squashfs")),
                f -> f.addSkipMnt("/x").addEnableFs("squashfs")),
            Row.dump(
                "cg_root, cgroup_props, cgroup_dump_controller, cgroup_yard",
                o ->
                    o.criu(
                        c ->
                            c.cgroups(CgroupMode.FULL)
                                .set("cgroup-root=/others")
                                .set("cgroup-root=cpu:/job")
                                .set("cgroup-props=p")
                                .set("cgroup-dump-controller=cpu")
                                .set("cgroup-dump-controller=memory")
                                .set("cgroup-yard=/x")),
                f ->
                    f.setManageCgroupsMode(criu_cg_mode.FULL)
                        .addCgRoot(cgroup_root.newBuilder().setPath("/others"))
                        .addCgRoot(cgroup_root.newBuilder().setCtrl("cpu").setPath("/job"))
                        .setCgroupProps("p")
                        .addAllCgroupDumpController(List.of("cpu", "memory"))
                        .setCgroupYard("/x")),
            Row.dump(
                "cg_root",
                o -> o.criu(c -> c.set("cgroup-root=/x")),
                f ->
                    f.setManageCgroupsMode(criu_cg_mode.SOFT)
                        .addCgRoot(cgroup_root.newBuilder().setPath("/x")))));
  }

  private static criu_cg_mode number(CgroupMode mode) {
    return switch (mode) {
      case IGNORE -> criu_cg_mode.IGNORE;
      case NONE -> criu_cg_mode.CG_NONE;
      case PROPERTIES -> criu_cg_mode.PROPS;
      case SOFT -> criu_cg_mode.SOFT;
      case FULL -> criu_cg_mode.FULL;
      case STRICT -> criu_cg_mode.STRICT;
    };
  }

  @TestFactory
  Stream<DynamicTest> givesItsField() {
    return rows()
        .map(row -> dynamicTest(row.name(), () -> assertEquals(row.expected(), row.given())));
  }

  @Test
  void everyFieldIsGiven_orSaidToBeNone() {
    Set<String> left = new TreeSet<>();
    for (FieldDescriptor field : criu_opts.getDescriptor().getFields()) {
      left.add(field.getName());
    }
    rows().forEach(row -> left.removeAll(List.of(row.name().split(", "))));
    assertEquals(new TreeSet<>(NOT_AN_OPTION.keySet()), left);
  }

  private static DynamicTest conflict(String named, Runnable options) {
    return dynamicTest(
        named,
        () -> {
          IllegalStateException e = assertThrows(IllegalStateException.class, options::run);
          assertTrue(e.getMessage().contains(named), e.getMessage());
        });
  }

  /** Options that exclude each other are refused, in any order. */
  @TestFactory
  Stream<DynamicTest> refusesConflicts() {
    return Stream.of(
        conflict(
            "tcp-close", () -> dump().criu(c -> c.tcpClose(true).tcpEstablished(true)).build()),
        conflict(
            "tcp-established",
            () -> restore().criu(c -> c.tcpEstablished(true).tcpClose(true)).build()),
        conflict(
            "cgroups that are ignored",
            () -> dump().criu(c -> c.set("cgroup-root=/x").cgroups(CgroupMode.IGNORE)).build()),
        conflict("leaveStopped", () -> dump().leaveStopped(true).leaveRunning(true).build()),
        conflict("leaveRunning", () -> dump().leaveRunning(true).leaveStopped(true).build()),
        conflict(
            "unprivileged",
            () -> dump().criu(c -> c.unprivileged(true).cgroups(CgroupMode.SOFT)).build()),
        conflict(
            "cgroups",
            () -> restore().criu(c -> c.set("cgroup-root=/x").unprivileged(true)).build()),
        conflict(
            "join", () -> restore().criu(c -> c.set("join-ns=net:/x").set("empty-ns=net")).build()),
        conflict(
            "empty-ns",
            () -> restore().criu(c -> c.set("empty-ns=net").set("join-ns=net:/x")).build()));
  }

  private static DynamicTest impossible(String what, Runnable options) {
    return dynamicTest(what, () -> assertThrows(IllegalArgumentException.class, options::run));
  }

  @TestFactory
  Stream<DynamicTest> refusesWhatCannotBe() {
    return Stream.of(
        impossible("a ghost limit over 4 GiB", () -> dump().criu(c -> c.ghostLimit(1L << 32))),
        impossible("no log level", () -> dump().criu(c -> c.logLevel(5))),
        impossible("no deadline", () -> restore().deadline(Duration.ZERO)),
        impossible(
            "no freeze timeout", () -> dump().criu(c -> c.freezeTimeout(Duration.ofSeconds(-1)))));
  }

  private static DumpRequest request(DumpOptions options) {
    return new DumpRequest(new ProcessIdentity(7, 1), FILE, FILE, options);
  }

  private static DumpOptions.Builder dump() {
    return DumpOptions.builder();
  }

  private static RestoreOptions.Builder restore() {
    return RestoreOptions.builder();
  }
}
