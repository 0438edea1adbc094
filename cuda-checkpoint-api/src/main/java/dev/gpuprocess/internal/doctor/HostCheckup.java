package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.internal.lock.StateDirectory;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.text.Bytes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Looks at the kernel, our rights, memory and directories. */
final class HostCheckup {

  private final Checkup checkup;
  private final Path root;
  private final Capabilities ours;

  /**
   * Looks at a machine.
   *
   * @param root where its {@code /proc} and {@code /sys} are
   * @param ours what this JVM may do
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
      checkup.ok("rights for CRIU", "it gets CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE from us");
    } else if (checkup.hasPassed(CriuCheckup.CHECK)) {
      checkup.ok("rights for CRIU", "it has them from elsewhere, as its check shows");
    } else {
      checkup.problem(
          "rights for CRIU",
          "a program started from here has neither CAP_SYS_ADMIN nor CAP_CHECKPOINT_RESTORE, and"
              + " CRIU refuses to work without",
          "run as root, or give the JVM or the criu program one of them, or have sudo run"
              + " CRIU for this user (docs/criu-as-root.md)");
    }
    if (!ours.has(Capability.SYS_PTRACE)) {
      checkup.warning(
          "CAP_SYS_PTRACE",
          "is missing, so only processes of this user can be suspended",
          "run as root, or as the user of the job");
    }
    if (!ours.handsOn(Capability.NET_ADMIN)) {
      checkup.warning(
          "CAP_NET_ADMIN",
          "is missing, so TCP connections cannot be dumped or restored",
          "run as root if you need that");
    }
  }

  /** Yama: who may trace whom, which CRIU must. */
  private void lookAtPtraceScope() {
    String scope = read("proc/sys/kernel/yama/ptrace_scope").orElse("0");
    boolean mayTrace = ours.has(Capability.SYS_PTRACE);
    if (scope.equals("3")) {
      checkup.problem(
          "ptrace_scope",
          "is 3: no process may trace another, not even root's, and CRIU must",
          "boot with another value of kernel.yama.ptrace_scope; 3 cannot be taken back");
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
   * What moves off the GPUs must fit beside everything else.
   *
   * @param onGpus what processes hold there, in bytes
   */
  void lookAtMemory(long onGpus) {
    HostMemory memory = HostMemory.read(root.resolve("proc/meminfo"));
    String what =
        "%s available, %s of swap free; processes hold %s on the GPUs"
            .formatted(
                Bytes.text(memory.available()), Bytes.text(memory.swap()), Bytes.text(onGpus));
    if (memory.room() < onGpus) {
      checkup.warning(
          "host memory", what + ", so not all can be suspended at once", "suspend one by one");
    } else {
      checkup.ok("host memory", what);
    }
  }

  void lookAtStateDirectory(StateDirectory directory) {
    Optional<String> trouble = directory.trouble();
    if (trouble.isPresent()) {
      checkup.problem(
          "state directory",
          trouble.get() + "; without it nothing is suspended",
          "mend that, or name another directory in GPUPROCESS_STATE_DIR");
    } else {
      checkup.ok("state directory", directory.path() + " can be written");
    }
  }

  /**
   * Where images are to go.
   *
   * @param directory an image is made in it
   * @param needed the size of the image, 0 when not known
   */
  void lookAtImageDirectory(Path directory, long needed) {
    if (!Files.isDirectory(directory) || !Files.isWritable(directory)) {
      checkup.problem(
          "image directory",
          directory + (Files.isDirectory(directory) ? " cannot be written" : " is not a directory"),
          "create it, or name another");
      return;
    }
    try {
      long room = Files.getFileStore(directory).getUsableSpace();
      String what = "%s has room for %s".formatted(directory, Bytes.text(room));
      if (room < needed) {
        checkup.problem(
            "image directory",
            "%s, and the image needs about %s".formatted(what, Bytes.text(needed)),
            "free some, or name a directory on another file system");
      } else {
        checkup.ok(
            "image directory",
            needed == 0 ? what : "%s, about %s needed".formatted(what, Bytes.text(needed)));
      }
    } catch (IOException e) {
      checkup.problem(
          "image directory", directory + " does not tell its room: " + e, "name another");
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
