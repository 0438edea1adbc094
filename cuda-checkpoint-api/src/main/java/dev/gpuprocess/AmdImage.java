package dev.gpuprocess;

import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.DumpedImage;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.restore.ImageRestore;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.spi.GpuPlugin;
import java.nio.file.Path;

/**
 * An {@link AmdProcess} on disk: one directory with CRIU's image files, those of its plugin with
 * the GPU memory among them, and a manifest that names the plugin ({@link
 * dev.gpuprocess.image.Manifest#plugin()}). It can be restored any number of times, but only once
 * at a time, since its processes get the pids that they had. Immutable; may be shared between
 * threads. A restore has a deadline; methods that only read or remove files take as long as the
 * disk does.
 *
 * <p>It has not been run on an AMD GPU: see {@link AmdProcess}.
 */
public final class AmdImage extends SavedImage {

  private AmdImage(EngineContext context, DumpedImage image) {
    super(context, image);
  }

  /**
   * Opens an image, with the drivers of this machine. Reads only the manifest; {@link #verify} and
   * {@link #restore} read everything.
   *
   * @param directory as given to {@link AmdProcess#dump(Path)}
   * @return the image
   * @throws dev.gpuprocess.error.ImageException with reason MISMATCH when it is not of an AMD
   *     process; use {@link ProcessImage#open}; otherwise as {@link ProcessImage#open}
   */
  public static AmdImage open(Path directory) {
    return GpuCheckpoints.standard().openAmd(directory);
  }

  static AmdImage open(EngineContext context, Path directory) {
    return of(context, opened(context, directory, GpuPlugin.AMDGPU));
  }

  static AmdImage of(EngineContext context, DumpedImage made) {
    return new AmdImage(context, made);
  }

  /**
   * Brings the process back with CRIU and its plugin, under the pids that it had. It runs then. The
   * image stays.
   *
   * @return the running process
   * @see #restore(RestoreOptions)
   */
  public AmdProcess restore() {
    return restore(RestoreOptions.ofDefaults());
  }

  /**
   * Brings the process back with CRIU and its plugin, under the pids that it had. It runs then. The
   * image stays. Whether the GPUs have room for it only the plugin finds out.
   *
   * @param options how to restore; settings that must be those of the dump are taken from the
   *     manifest
   * @return the running process
   * @throws dev.gpuprocess.error.MachineUnfitException with reason PLUGIN_MISSING when CRIU's
   *     plugin for AMD GPUs is not on this machine, or others could have changed it; nothing was
   *     done
   * @throws dev.gpuprocess.error.CriuException when CRIU or its plugin could not restore it;
   *     nothing of the process is left
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link
   *     ProcessImage#restore(RestoreOptions)}
   */
  public AmdProcess restore(RestoreOptions options) {
    StepRecorder recorder = new StepRecorder(context.listener(), manifest().pid(), steps());
    return new AmdProcess(
        new ImageRestore(context, directory, GpuPlugin.AMDGPU, recorder).run(options));
  }

  @Override
  public AmdImage copyTo(Path directory) {
    return new AmdImage(context, copied(directory, null));
  }

  @Override
  public AmdImage copyTo(Path directory, Cancellation cancellation) {
    return new AmdImage(context, copied(directory, cancellation));
  }

  @Override
  public String toString() {
    return "image of AMD process " + manifest().pid() + " in " + directory();
  }
}
