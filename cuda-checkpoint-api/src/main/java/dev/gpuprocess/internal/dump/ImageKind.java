package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.spi.GpuPlugin;
import org.jspecify.annotations.Nullable;

/** Whether a plugin of CRIU restores the GPU state of an image, or the CUDA driver does. */
public final class ImageKind {

  private ImageKind() {}

  /**
   * Refuses an image of the other kind.
   *
   * @param wanted the plugin that the caller has restore it; null for none
   * @param verb for exceptions
   */
  public static void require(ImageDirectory image, @Nullable GpuPlugin wanted, String verb) {
    Manifest manifest = image.manifest();
    String needed = manifest.options().plugin();
    if (wanted == null ? needed == null : wanted.id().equals(needed)) {
      return;
    }
    throw new ImageException(
        ImageException.Reason.MISMATCH,
        "the image %s %s; nothing was restored".formatted(image.path(), advice(needed)),
        Failure.of(verb, manifest.pid()));
  }

  private static String advice(@Nullable String needed) {
    if (needed == null) {
      return "was made without a plugin of CRIU: open it with ProcessImage.open";
    }
    return needed.equals(GpuPlugin.AMDGPU.id())
        ? "is of an AMD process, made with CRIU's %s: open it with AmdImage.open".formatted(needed)
        : "was made with CRIU's %s: use the version of this library that wrote it"
            .formatted(needed);
  }
}
