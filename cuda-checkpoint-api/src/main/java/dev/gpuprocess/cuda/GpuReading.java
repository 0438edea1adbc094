package dev.gpuprocess.cuda;

import java.util.List;

/**
 * What an inventory found at one moment. Immutable.
 *
 * @param gpus the GPUs that could be read
 * @param unreadable what could not be read and why, one sentence each; empty when every GPU was
 *     read
 */
public record GpuReading(List<Gpu> gpus, List<String> unreadable) {

  /** Copies the lists. */
  public GpuReading {
    gpus = List.copyOf(gpus);
    unreadable = List.copyOf(unreadable);
  }
}
