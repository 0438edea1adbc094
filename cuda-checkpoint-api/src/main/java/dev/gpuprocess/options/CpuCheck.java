package dev.gpuprocess.options;

/** Which properties of the CPU must match where an image is restored (CRIU {@code cpu-cap}). */
public enum CpuCheck {
  /** Nothing is compared. */
  NONE,
  /** The floating point unit. */
  FPU,
  /** The floating point unit and the instructions that programs may use. */
  INSTRUCTIONS,
  /** Everything. */
  ALL
}
