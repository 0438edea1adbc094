package dev.gpuprocess.options;

/** What of the CPU must be the same where an image is restored (CRIU {@code cpu-cap}). */
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
