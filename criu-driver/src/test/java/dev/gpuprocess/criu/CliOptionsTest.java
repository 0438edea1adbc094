package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.UnsupportedOptionException;
import dev.gpuprocess.options.CgroupMode;
import dev.gpuprocess.options.Cgroups;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.options.FileValidation;
import dev.gpuprocess.options.JoinedNamespace;
import dev.gpuprocess.options.LsmProfile;
import dev.gpuprocess.options.Mounts;
import dev.gpuprocess.options.Namespace;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;

/** The same options do the same on the command line; and every one of them gets there. */
@NullUnmarked
class CliOptionsTest extends OptionsTest {

  @Override
  CriuDriver driver() {
    return new CliCriuDriver(RealCriu.command());
  }

  /** CRIU does not ask its script for external files. */
  @Override
  List<String> dumpStages() {
    return List.of("pre-dump", "network-lock", "post-dump");
  }

  @Test
  @Override
  void inherit_replacesAPipe_byAFileOfOurs() {
    assertThrows(UnsupportedOptionException.class, super::inherit_replacesAPipe_byAFileOfOurs);
  }

  @Test
  @Override
  void external_letsAHalfOfAPairGo_andInheritGivesItAnother() {
    assertThrows(
        UnsupportedOptionException.class,
        super::external_letsAHalfOfAPairGo_andInheritGivesItAnother);
  }

  @Test
  @Override
  void asChild_makesTheRootAChildOfOurs_andTellsHowItEnds() {
    assertThrows(
        UnsupportedOptionException.class,
        super::asChild_makesTheRootAChildOfOurs_andTellsHowItEnds);
  }

  /** Refused before anything begins. */
  @Test
  @Override
  void asChild_whenTheRestoreFails_leavesNoZombie() {
    try (Workload workload = Workload.counter(directory)) {
      site().dump(workload.identity(), Site.dump().build());
      RestoreOptions options = Site.shellJob().asChild(true).build();
      assertThrows(UnsupportedOptionException.class, () -> site().restore(workload.pid(), options));
    }
  }

  @Test
  @Override
  void optionsThatRpcDoesNotCarry_goThroughAFile() throws IOException {
    Site other = Site.in(directory.resolve("other"), driver());
    try (Workload workload = Workload.counter(directory)) {
      other.dump(workload.identity(), Site.backup().build());
      site()
          .dump(
              workload.identity(),
              Site.backup().fileValidation(FileValidation.SIZE).ghostFiemap(true).build());
    }
    assertFalse(Files.exists(site().work().resolve(ConfigFile.NAME)));
    assertTrue(
        Files.size(site().images().resolve("files.img"))
            < Files.size(other.images().resolve("files.img")));
  }

  @Test
  void everyOptionOfADump_hasItsArgument() {
    DumpOptions options =
        DumpOptions.builder()
            .leaveRunning(true)
            .tcpEstablished(true)
            .tcpSkipInFlight(true)
            .linkRemap(true)
            .ghostLimit(5000)
            .ghostFiemap(true)
            .evasiveDevices(true)
            .forceIrmap(true)
            .irmapScanPaths(Path.of("/a b"), Path.of("-h"))
            .freezeCgroup(Path.of("/sys/fs/cgroup/job"))
            .freezeTimeout(Duration.ofMillis(1500))
            .parentImages(Path.of("../before"))
            .externalUnixSockets(true)
            .fileLocks(true)
            .autoDedup(true)
            .allowUprobes(true)
            .emptyNetworkNamespace(true)
            .mounts(Mounts.AUTOMATIC.skip(Path.of("/skipped")).enable("squashfs"))
            .external(External.mount(Path.of("/data"), "data"))
            .cgroups(
                Cgroups.of(CgroupMode.PROPERTIES)
                    .root("cpu", "/jobs")
                    .properties("{}")
                    .controllers("cpu")
                    .yard(Path.of("/yard")))
            .cpuCheck(CpuCheck.INSTRUCTIONS)
            .fileValidation(FileValidation.BUILD_ID)
            .logLevel(4)
            .build();
    assertEquals(
        """
        --verbosity=4 --tcp-established --ext-unix-sk --file-locks --auto-dedup --allow-uprobes \
        --enable-external-sharing --enable-external-masters --ext-mount-map=auto \
        --skip-mnt=/skipped --enable-fs=squashfs --external=mnt[/data]:data \
        --manage-cgroups=props --cgroup-root=cpu:/jobs --cgroup-props={} \
        --cgroup-dump-controller=cpu --cgroup-yard=/yard --cpu-cap=none,fpu,ins \
        --file-validation=buildid --empty-ns=net --leave-running --skip-in-flight --link-remap \
        --ghost-limit=5000 --ghost-fiemap --evasive-devices --force-irmap --timeout=2 \
        --track-mem --irmap-scan-path=/a b --irmap-scan-path=-h \
        --freeze-cgroup=/sys/fs/cgroup/job --prev-images-dir=../before --network-lock=nftables""",
        String.join(" ", CliOptions.of(options, NetworkLock.NFTABLES, 1)));
  }

  @Test
  void everyOptionOfARestore_hasItsArgument() {
    RestoreOptions options =
        RestoreOptions.builder()
            .shellJob(true)
            .root(Path.of("/new root"))
            .join(
                JoinedNamespace.of(Namespace.NET, Path.of("/run/netns/blue")),
                JoinedNamespace.user(Path.of("/proc/12/ns/user"), 1, 2))
            .weakSysctls(true)
            .lsmProfile(new LsmProfile(LsmProfile.Module.APPARMOR, "job"))
            .lsmMountContext("system_u:object_r:job_t")
            .mountCompatibility(true)
            .skipFileModeCheck(true)
            .tcpClose(true)
            .leaveStopped(true)
            .unprivileged(true)
            .build();
    assertEquals(
        """
        --verbosity=3 --tcp-close --leave-stopped --unprivileged --shell-job --weak-sysctls \
        --mntns-compat-mode --skip-file-rwx-check --root=/new root \
        --join-ns=net:/run/netns/blue --join-ns=user:/proc/12/ns/user,1,2 \
        --lsm-profile=apparmor:job --lsm-mount-context=system_u:object_r:job_t""",
        String.join(" ", CliOptions.of(options, 1)));
  }

  @Test
  void whatCriuWouldTakeApart_isRefused() {
    Cgroups cgroups = Cgroups.of(CgroupMode.SOFT).root("", "/a:b");
    assertThrows(
        UnsupportedOptionException.class,
        () ->
            CliOptions.of(
                DumpOptions.builder().cgroups(cgroups).build(), NetworkLock.AUTOMATIC, 1));
    JoinedNamespace comma = JoinedNamespace.of(Namespace.NET, Path.of("/run/netns/a,b"));
    assertThrows(
        UnsupportedOptionException.class,
        () -> CliOptions.of(RestoreOptions.builder().join(comma).build(), 1));
  }
}
