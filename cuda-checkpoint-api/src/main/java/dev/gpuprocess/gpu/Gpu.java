package dev.gpuprocess.gpu;

import java.util.List;
import java.util.OptionalLong;

/**
 * A GPU and who uses it, at one moment.
 *
 * @param uuid its identity
 * @param name such as {@code NVIDIA H200}
 * @param totalBytes its memory
 * @param freeBytes what is free of it
 * @param users the processes with memory on it
 */
public record Gpu(GpuUuid uuid, String name, long totalBytes, long freeBytes, List<User> users) {

  /**
   * A process with memory on a GPU.
   *
   * @param pid the process, in the pid namespace that NVML reports in
   * @param bytes what it holds; empty where NVML does not tell, as for processes of others and with
   *     MIG
   */
  public record User(int pid, OptionalLong bytes) {}
}
