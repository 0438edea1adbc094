package dev.gpuprocess;

import dev.gpuprocess.internal.dump.Dump;
import dev.gpuprocess.internal.dump.RunningDump;
import dev.gpuprocess.internal.dump.SnapshotEnd;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import java.nio.file.Path;
import java.time.InstantSource;
import java.util.List;

/**
 * A process tree that uses AMD GPUs (ROCm) and no CUDA. CRIU's own plugin for them ({@code
 * amdgpu_plugin.so}) moves the GPU state inside CRIU's dump and restore, so such a process can be
 * dumped, restored, and copied while it goes on, but not suspended: there is no state in which it
 * is off its GPU and in host memory.
 *
 * <p>{@code AmdProcess.of(rootPid).dump(directory)} puts it on disk, and {@code
 * AmdImage.open(directory).restore()} brings it back, running.
 *
 * <p><b>This has not been run on an AMD GPU.</b> It is tested with real CRIU and a stand-in for the
 * plugin. What the real plugin carries, on which GPUs and kernels, its documentation says
 * (criu-amdgpu-plugin(1)); among other things the machine that restores needs GPUs of the same kind
 * and as many.
 *
 * <p>A tree is an AMD process when one of its processes has {@code /dev/kfd} or {@code
 * /dev/dri/renderD*} open or mapped. A tree without them, and one in which a process uses CUDA, is
 * refused: take it with {@link GpuProcess}. That one refuses, when it is to be dumped, a tree with
 * AMD devices. No CUDA driver is needed.
 *
 * <p>CRIU loads the plugin for such processes alone, and no other plugin beside it. It has to be of
 * the same version as CRIU. The driver of this library looks for it where CRIU's packages put it;
 * see {@code dev.gpuprocess.criu.RpcCriuDriver} for other directories.
 *
 * <p>Immutable; may be shared between threads. One verb at a time works on a process; another is
 * refused with {@link dev.gpuprocess.error.OperationInProgressException}. After a dump that ended
 * the process this object is stale.
 */
public final class AmdProcess {

  private final StateHandle self;

  AmdProcess(StateHandle self) {
    this.self = self;
  }

  /**
   * Takes a running process, with the drivers of this machine.
   *
   * @param rootPid the root of the tree, which need not use the GPU itself
   * @return the process
   * @throws dev.gpuprocess.error.NoSuchProcessException when the process does not exist
   * @throws dev.gpuprocess.error.ProcessUnfitException with reason NOT_AMD when it uses no AMD GPU,
   *     or CUDA
   * @throws dev.gpuprocess.error.RetryLaterException with reason PROCESS_UNREADABLE when what it
   *     has open cannot be read
   */
  public static AmdProcess of(long rootPid) {
    return GpuCheckpoints.standard().amdProcess(rootPid);
  }

  /**
   * The root of the process tree.
   *
   * @return its pid and start time
   */
  public ProcessIdentity root() {
    return self.tree().root;
  }

  /**
   * The steps that led here.
   *
   * @return those of the restore, in the order in which they ended; empty for a process that was
   *     found
   */
  public List<Step> steps() {
    return self.steps();
  }

  /**
   * Writes the process to disk, after which it is gone.
   *
   * @param directory where the image will be: it must not exist yet, or be empty; missing
   *     directories above it are created
   * @return the image
   * @see #dump(Path, DumpOptions)
   */
  public AmdImage dump(Path directory) {
    return dump(directory, DumpOptions.ofDefaults());
  }

  /**
   * Writes the tree of the root to disk with CRIU and its plugin, after which it is gone, unless
   * the options say otherwise. The image is complete, checksummed and durable before the process
   * may die. What can be checked without touching the process is checked first: the plugin, CRIU,
   * the directory, what the tree has open. How much the plugin will write of the GPUs' memory is
   * not known before: when the disk gets full the dump fails and the process runs on.
   *
   * @param directory where the image will be: it must not exist yet, or be empty; missing
   *     directories above it are created
   * @param options how to dump; what they say of CUDA ({@code memoryFiles}, {@code
   *     releaseInheritedGpu}) has no effect
   * @return the image
   * @throws dev.gpuprocess.error.MachineUnfitException with reason PLUGIN_MISSING when CRIU's
   *     plugin for AMD GPUs is not on this machine, or others could have changed it; nothing was
   *     touched
   * @throws dev.gpuprocess.error.ProcessUnfitException with reason NOT_AMD when it uses no AMD GPU
   *     any more, or CUDA
   * @throws dev.gpuprocess.error.NoSuchProcessException when the root has ended
   * @throws dev.gpuprocess.error.StaleStateException when this object has dumped it already
   * @throws dev.gpuprocess.error.CriuException when CRIU or its plugin could not dump; the process
   *     runs on, as far as CRIU can tell: {@link dev.gpuprocess.error.Failure#fate()}
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link CheckpointedProcess#dump(Path,
   *     DumpOptions)}
   */
  public AmdImage dump(Path directory, DumpOptions options) {
    return AmdImage.of(
        self.tree().context, Dump.of(self, directory, options, InstantSource.system()));
  }

  /**
   * Makes a backup of a process that goes on.
   *
   * @param directory where the image will be; see {@link #dump(Path, DumpOptions)}
   * @return the image
   * @see #snapshot(Path, DumpOptions)
   */
  public AmdImage snapshot(Path directory) {
    return snapshot(directory, DumpOptions.ofDefaults());
  }

  /**
   * Makes a backup of a process that goes on: CRIU writes it and lets it run, and then the image is
   * checksummed, synced and gets its name. {@link AmdImage#snapshotTimes()} tells how long the
   * process stood still.
   *
   * @param directory where the image will be; see {@link #dump(Path, DumpOptions)}
   * @param options how to dump; the process is left running in any case
   * @return the image
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #dump(Path, DumpOptions)}
   */
  public AmdImage snapshot(Path directory, DumpOptions options) {
    return AmdImage.of(
        self.tree().context,
        RunningDump.snapshot(self, directory, options, InstantSource.system(), new SnapshotEnd()));
  }

  @Override
  public String toString() {
    return "AMD process " + root().pid();
  }
}
