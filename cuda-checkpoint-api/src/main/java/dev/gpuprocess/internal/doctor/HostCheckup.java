package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.text.Bytes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalLong;

/** Checks the kernel, our capabilities, memory and directories. */
final class HostCheckup {

  private final Checkup checkup;
  private final Path root;
  private final Capabilities ours;

  /**
   * Creates the checks of a machine.
   *
   * @param root the directory of its {@code /proc} and {@code /sys}
   * @param ours the capabilities of this JVM
   */
  HostCheckup(Checkup checkup, Path root, Capabilities ours) {
    this.checkup = checkup;
    this.root = root;
    this.ours = ours;
  }

  void look() {
    checkup.ok("kernel", System.getProperty("os.version"));
    lookAtCapabilities();
    lookAtPtraceScope();
    lookAtHugePages();
  }

  private void lookAtCapabilities() {
    if (ours.handsOn(Capability.SYS_ADMIN) || ours.handsOn(Capability.CHECKPOINT_RESTORE)) {
      checkup.ok(
          "rights for CRIU", "it inherits CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE from this JVM");
    } else if (checkup.hasPassed(CriuCheckup.CHECK)) {
      checkup.ok("rights for CRIU", "it has them, as criu check shows");
    } else {
      checkup.problem(
          "rights for CRIU",
          "a program started from here has neither CAP_SYS_ADMIN nor CAP_CHECKPOINT_RESTORE, and"
              + " CRIU needs one of them",
          "run as root, or give the JVM or the criu program one of them, or have sudo run"
              + " CRIU for this user (docs/criu-as-root.md)");
    }
    if (!ours.has(Capability.SYS_PTRACE)) {
      checkup.warning(
          "CAP_SYS_PTRACE",
          "is missing, so only processes of this user can be suspended",
          "run as root, or as the user of the process");
    }
    if (!ours.handsOn(Capability.NET_ADMIN)) {
      checkup.warning(
          "CAP_NET_ADMIN",
          "is missing, so TCP connections cannot be dumped or restored",
          "run as root if you need that");
    }
  }

  /** Yama restricts tracing, which CRIU needs. */
  private void lookAtPtraceScope() {
    String scope = read("proc/sys/kernel/yama/ptrace_scope").orElse("0");
    boolean mayTrace = ours.has(Capability.SYS_PTRACE);
    if (scope.equals("3")) {
      checkup.problem(
          "ptrace_scope",
          "is 3: no process may trace another, not even as root, and CRIU must",
          "boot with another value of kernel.yama.ptrace_scope; 3 cannot be changed at run time");
    } else if (!scope.equals("0") && !mayTrace) {
      checkup.problem(
          "ptrace_scope",
          "is " + scope + ", so without CAP_SYS_PTRACE no process can be dumped",
          "run as root, or: sysctl kernel.yama.ptrace_scope=0");
    } else {
      checkup.ok("ptrace_scope", "is " + scope);
    }
  }

  private void lookAtHugePages() {
    String setting = read("sys/kernel/mm/transparent_hugepage/enabled").orElse("[never]");
    if (setting.contains("[always]")) {
      checkup.ok("transparent huge pages", "are always used, which makes checkpoints faster");
    } else {
      checkup.ok(
          "transparent huge pages",
          "are set to %s; \"always\" makes checkpoints about a third faster (16 GiB: 4.8 s instead of 6.8 s on an H200)"
              .formatted(setting.replaceAll(".*\\[(\\w+)\\].*", "$1")),
          "echo always > /sys/kernel/mm/transparent_hugepage/enabled");
    }
  }

  /**
   * Checks whether the host has memory for all the GPU memory in use.
   *
   * @param onGpus the GPU memory that processes hold, in bytes
   */
  void lookAtMemory(long onGpus) {
    HostMemory memory;
    try {
      memory = HostMemory.read(root.resolve("proc/meminfo"));
    } catch (IOException e) {
      throw ProcFs.hidden("meminfo", e);
    }
    String amounts =
        "%s available, %s of swap free; processes hold %s on the GPUs"
            .formatted(
                Bytes.text(memory.available()), Bytes.text(memory.swap()), Bytes.text(onGpus));
    if (memory.room() < onGpus) {
      checkup.warning(
          "host memory", amounts + ", so not all can be suspended at once", "suspend one by one");
    } else {
      checkup.ok("host memory", amounts);
    }
    OptionalLong limit = ControlGroup.memoryRoom(ProcessHandle.current().pid());
    if (limit.isPresent() && limit.getAsLong() < onGpus) {
      checkup.warning(
          "memory limit",
          "the control group of this JVM allows %s more memory, and suspended processes are charged to it"
              .formatted(Bytes.text(Math.max(0, limit.getAsLong()))),
          "raise its memory limit by the GPU memory that is suspended at a time");
    }
  }

  void lookAtStateDirectory(StateDirectory directory) {
    Optional<String> obstacle = directory.obstacle();
    if (obstacle.isPresent()) {
      checkup.problem(
          "state directory",
          obstacle.get() + "; without it no process is suspended",
          "fix that, or name another directory in GPUPROCESS_STATE_DIR");
    } else {
      checkup.ok("state directory", directory.path() + " can be written");
    }
  }

  /** Checks the directory for an image. */
  void lookAtImageDirectory(Path directory) {
    if (!Files.isDirectory(directory) || !Files.isWritable(directory)) {
      checkup.problem(
          "image directory",
          directory + (Files.isDirectory(directory) ? " cannot be written" : " is not a directory"),
          "create it, or name another");
      return;
    }
    try {
      long free = Files.getFileStore(directory).getUsableSpace();
      checkup.ok("image directory", "%s has %s free".formatted(directory, Bytes.text(free)));
    } catch (IOException e) {
      checkup.problem(
          "image directory", directory + " does not report its free space: " + e, "name another");
    }
  }

  private Optional<String> read(String file) {
    try {
      return Optional.of(Files.readString(root.resolve(file)).strip());
    } catch (IOException notInThisKernel) {
      return Optional.empty();
    }
  }
}
