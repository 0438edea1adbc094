package dev.gpuprocess.spi;

/**
 * A plugin of CRIU that moves GPU state inside CRIU's own dump and restore. CRIU loads none unless
 * a request names it, and then this one alone, whatever else is installed beside it.
 */
public enum GpuPlugin {
  /** For AMD GPUs, as ROCm uses them: {@code /dev/kfd} and {@code /dev/dri/renderD*}. */
  AMDGPU("amdgpu_plugin");

  private final String id;

  GpuPlugin(String id) {
    this.id = id;
  }

  /**
   * What the plugin calls itself, in CRIU's images too.
   *
   * @return such as {@code amdgpu_plugin}
   */
  public String id() {
    return id;
  }

  /**
   * The name of its file.
   *
   * @return such as {@code amdgpu_plugin.so}
   */
  public String fileName() {
    return id + ".so";
  }
}
