package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;

/** What of a cluster's settings, and of this node, makes a preempted job continue elsewhere. */
public final class SlurmCheck {

  private static final Set<String> SHARED =
      Set.of("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "ocfs2", "gfs2");

  private static final int TEST_FILE = 256 << 20;
  private static final int BLOCK = 4 << 20;

  /** A signal, a lock, and the parts of a dump that do not depend on the size. */
  private static final Duration FIXED = Duration.ofSeconds(10);

  private static final Path IO_URING = Path.of("/proc/sys/kernel/io_uring_disabled");

  private final GpuCheckpoints machine;
  private final Scontrol scontrol;
  private final String partition;
  private final Path images;
  private final OptionalLong bytes;
  private final List<Finding> findings = new ArrayList<>();

  /**
   * Prepares a check.
   *
   * @param machine the drivers of this node
   * @param scontrol the controller
   * @param partition the partition of the jobs that are preempted; empty for none
   * @param images the directory for images; made if it does not exist
   * @param bytes what a job holds on its GPUs; the memory of the largest GPU if empty
   */
  public SlurmCheck(
      GpuCheckpoints machine,
      Scontrol scontrol,
      String partition,
      Path images,
      OptionalLong bytes) {
    this.machine = machine;
    this.scontrol = scontrol;
    this.partition = partition;
    this.images = images;
    this.bytes = bytes;
  }

  /**
   * Reads the settings, and writes a file of 256 MiB to the images to measure their disk; it is
   * removed again. Takes some seconds.
   *
   * @return the findings, those about Slurm first
   */
  public List<Finding> run() {
    Map<String, String> config = scontrol.config();
    if (config.isEmpty()) {
      add(
          Severity.PROBLEM,
          "controller",
          "scontrol show config has no answer",
          "run this on a node of the cluster, while slurmctld runs");
    } else {
      checkCluster(config, scontrol.partition(partition));
    }
    checkIoUring();
    checkDisk();
    machine.doctor().findings().stream().filter(each -> !isOk(each)).forEach(findings::add);
    if (findings.stream().allMatch(SlurmCheck::isOk)) {
      add(Severity.OK, "node", "the driver, CRIU and the rights suffice for a dump", "");
    }
    return List.copyOf(findings);
  }

  private void checkCluster(Map<String, String> config, Map<String, String> settings) {
    String track = config.getOrDefault("ProctrackType", "");
    decide(
        track.equals("proctrack/cgroup"),
        Severity.WARNING,
        "ProctrackType",
        track + (track.equals("proctrack/cgroup") ? "" : ": processes can escape the job"),
        "set ProctrackType=proctrack/cgroup");
    if (config.getOrDefault("SignalChildrenProcesses", "").equals("yes")) {
      add(
          Severity.WARNING,
          "SignalChildrenProcesses",
          "a signal for a task ends its command too, before it can be dumped",
          "set SignalChildrenProcesses=no in cgroup.conf");
    }
    boolean limited = config.getOrDefault("ConstrainDevices", "").equals("yes");
    decide(
        limited,
        Severity.WARNING,
        "ConstrainDevices",
        limited
            ? "a job can use its own GPUs alone"
            : "a job can use each GPU of its node; if the GPUs that it used are not known, it is not restored on a node with more GPUs than its own",
        "set TaskPlugin=task/cgroup, and ConstrainDevices=yes in cgroup.conf");
    String preempt = config.getOrDefault("PreemptType", "");
    decide(
        !preempt.endsWith("/none"),
        Severity.WARNING,
        "PreemptType",
        preempt + (preempt.endsWith("/none") ? ": jobs are never preempted" : ""),
        "set PreemptType=preempt/partition_prio, or preempt/qos");
    String mode = settings.getOrDefault("PreemptMode", config.getOrDefault("PreemptMode", ""));
    decide(
        mode.contains("REQUEUE"),
        Severity.PROBLEM,
        "PreemptMode",
        mode + (mode.contains("REQUEUE") ? "" : ": a preempted job does not come back"),
        "set PreemptMode=REQUEUE for the partition or the QOS");
    String requeue = config.getOrDefault("JobRequeue", "");
    decide(
        requeue.equals("1"),
        Severity.WARNING,
        "JobRequeue",
        requeue,
        "submit with --requeue, or set JobRequeue=1");
    boolean announced =
        (config.getOrDefault("SlurmctldParameters", "")
                + ","
                + config.getOrDefault("PreemptParameters", ""))
            .contains("send_user_signal");
    decide(
        announced,
        Severity.WARNING,
        "signals",
        announced
            ? "the signal of --signal is sent at the begin of a preemption"
            : "a batch script learns of a preemption by SIGTERM at its end; the dump must be done"
                + " within KillWait, "
                + config.getOrDefault("KillWait", "which is not known"),
        "add preempt_send_user_signal to SlurmctldParameters; from Slurm 23.02 on,"
            + " send_user_signal to PreemptParameters");
    checkGrace(settings);
  }

  private void checkGrace(Map<String, String> settings) {
    if (settings.isEmpty()) {
      add(
          Severity.WARNING,
          "GraceTime",
          "the partition is not known",
          "name it with --partition, as: gpuprocess slurm check --partition low");
      return;
    }
    long seconds = scontrol.grace(partition).map(Duration::toSeconds).orElse(0L);
    OptionalLong held = bytes.isPresent() ? bytes : largestGpu();
    if (held.isEmpty()) {
      add(Severity.WARNING, "GraceTime", seconds + " s; no GPU is seen here", "give --bytes");
      return;
    }
    double speed;
    try {
      speed = measure();
    } catch (IOException e) {
      add(
          Severity.PROBLEM,
          "images",
          images + " cannot be written: " + e.getMessage(),
          "name a directory of this user on a shared disk");
      return;
    }
    long needed = (long) Math.ceil(held.getAsLong() / speed) + FIXED.toSeconds();
    decide(
        seconds >= needed,
        Severity.PROBLEM,
        "GraceTime",
        String.format(
            Locale.ROOT,
            "%s s; a dump of %.1f GiB at %.2f GiB/s takes about %s s",
            seconds,
            held.getAsLong() / (double) (1 << 30),
            speed / (1 << 30),
            needed),
        "set GraceTime=%s for partition %s, use a faster disk, or give --bytes"
            .formatted(needed, partition));
  }

  private OptionalLong largestGpu() {
    return machine.gpus().gpus().orElse(List.of()).stream().mapToLong(Gpu::totalBytes).max();
  }

  /** Without it, a umask of zero would let each user exchange the directories of jobs. */
  private void makeDirectory() throws IOException {
    Files.createDirectories(
        images, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwxr-xr-x")));
  }

  /** Returns the bytes that this disk takes in a second. */
  private double measure() throws IOException {
    makeDirectory();
    Path file = Files.createTempFile(images, "speed", "");
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
      ByteBuffer block = ByteBuffer.allocateDirect(BLOCK);
      while (block.hasRemaining()) {
        block.putInt(block.position() * 0x9e3779b9); // so that no disk can leave it out
      }
      long began = System.nanoTime();
      for (int written = 0; written < TEST_FILE; written += BLOCK) {
        block.rewind();
        while (block.hasRemaining()) {
          int unused = channel.write(block);
        }
      }
      channel.force(true);
      return TEST_FILE / ((System.nanoTime() - began) / 1e9);
    } finally {
      Files.delete(file);
    }
  }

  private void checkIoUring() {
    String disabled;
    try {
      disabled = Files.readString(IO_URING).strip();
    } catch (IOException e) {
      add(Severity.OK, "io_uring", "this kernel has no switch for it", "");
      return;
    }
    boolean off = disabled.equals("2");
    decide(
        off,
        Severity.WARNING,
        "io_uring",
        off
            ? "is off for all processes"
            : "a program can use it, and CRIU does not dump such a program",
        "set the sysctl kernel.io_uring_disabled=2, or UV_USE_IO_URING=0 and USE_LIBUV=0 in jobs");
  }

  private void checkDisk() {
    try {
      makeDirectory();
      String type = Files.getFileStore(images).type();
      boolean shared = SHARED.contains(type) || type.startsWith("fuse");
      decide(
          shared,
          Severity.WARNING,
          "images",
          "%s is on %s%s"
              .formatted(
                  images, type, shared ? "" : ", which is a disk of this node as far as is known"),
          "name a directory that all nodes have under the same path");
    } catch (IOException e) {
      add(
          Severity.PROBLEM,
          "images",
          images + " cannot be used: " + e.getMessage(),
          "name a directory of this user on a shared disk");
    }
  }

  private static boolean isOk(Finding finding) {
    return finding.severity() == Severity.OK;
  }

  private void decide(boolean fine, Severity otherwise, String subject, String what, String cure) {
    add(fine ? Severity.OK : otherwise, subject, what, fine ? "" : cure);
  }

  private void add(Severity severity, String subject, String what, String cure) {
    findings.add(new Finding(severity, subject, what, cure));
  }
}
