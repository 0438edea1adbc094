package dev.gpuprocess.options;

/**
 * How a restore recognizes that a file is still the one that was open (CRIU {@code
 * file-validation}).
 */
public enum FileValidation {
  /** By its size. */
  SIZE,
  /** By the build id of ELF files, and by the size of others. CRIU's default. */
  BUILD_ID
}
