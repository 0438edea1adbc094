package dev.gpuprocess.contract;

import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.spi.CriuDriver;
import java.util.Map;
import java.util.Optional;

/**
 * Whether a driver reaches a CRIU that works. Where none was named, tests that need one are
 * skipped; one that was named, as {@code bin/verify} does, has been promised and must work.
 */
public final class InstalledCriu {

  /** The environment variable, and the system property, that name the program. */
  private static final String VARIABLE = "GPUPROCESS_CRIU";

  private static final String PROPERTY = "gpuprocess.criu";

  /** Set in {@code bin/verify --fast}. */
  private static final boolean LEFT_OUT = Boolean.getBoolean("gpuprocess.quick");

  private InstalledCriu() {}

  /**
   * Tries it.
   *
   * @param driver which
   * @return why tests that need CRIU are to be skipped; empty if it works
   * @throws AssertionError if it does not work and was named
   */
  public static Optional<String> missing(CriuDriver driver) {
    return LEFT_OUT
        ? Optional.of("needs real CRIU, which a quick build leaves out")
        : missing(driver, System.getenv(), System.getProperty(PROPERTY, ""));
  }

  /**
   * The same, named elsewhere.
   *
   * @param driver which
   * @param environment where the program may be named
   * @param property the program, or blank
   * @return why tests that need CRIU are to be skipped; empty if it works
   * @throws AssertionError if it does not work and was named
   */
  public static Optional<String> missing(
      CriuDriver driver, Map<String, String> environment, String property) {
    try {
      driver.version();
      driver.check();
      return Optional.empty();
    } catch (GpuCheckpointException e) {
      if (property.isBlank() && environment.getOrDefault(VARIABLE, "").isBlank()) {
        return Optional.of("needs real CRIU: " + e.getMessage());
      }
      throw new AssertionError("the CRIU that was named does not work: " + e.getMessage(), e);
    }
  }
}
