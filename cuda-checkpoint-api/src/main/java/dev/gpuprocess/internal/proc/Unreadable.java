package dev.gpuprocess.internal.proc;

import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Readings of {@code /proc} for which a default is good enough when a process is unreadable. */
public final class Unreadable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private Unreadable() {}

  /** Reads, and returns the default instead of throwing {@link ProcessUnreadableException}. */
  public static <T> T as(T otherwise, Supplier<T> reading) {
    try {
      return reading.get();
    } catch (ProcessUnreadableException e) {
      LOG.debug("{} is assumed for what cannot be read", otherwise, e);
      return otherwise;
    }
  }
}
