package dev.gpuprocess.cuda;

import java.util.List;
import java.util.OptionalLong;

/**
 * A GPU and the processes that use it, at one moment. Immutable.
 *
 * @param uuid its identity
 * @param name such as {@code NVIDIA H200}
 * @param totalBytes its memory in bytes
 * @param freeBytes how much of it is free, in bytes
 * @param users the processes with memory on it
 */
public record Gpu(GpuUuid uuid, String name, long totalBytes, long freeBytes, List<User> users) {

  /**
   * A process with memory on a GPU.
   *
   * @param pid the process, in the pid namespace that NVML reports in
   * @param bytes how much it holds, in bytes; empty where NVML does not say, as with MIG and for
   *     processes of other users
   */
  public record User(int pid, OptionalLong bytes) {}
}
