package dev.gpuprocess;

import java.nio.file.Path;
import java.time.InstantSource;

/** A store whose images are made when a test says. */
public final class ClockedStore {

  private ClockedStore() {}

  /** With another clock than the system's. */
  public static ImageStore at(GpuCheckpoints checkpoints, Path directory, InstantSource clock) {
    return new ImageStore(checkpoints.context(), directory, clock);
  }
}
