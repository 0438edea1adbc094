package dev.gpuprocess.criu.internal.process;

import java.util.Comparator;

/**
 * A version of CRIU.
 *
 * @param major 4 in 4.2.1
 * @param minor 2 in 4.2.1
 * @param sublevel 1 in 4.2.1; 0 for 4.2
 */
public record CriuVersion(int major, int minor, int sublevel) implements Comparable<CriuVersion> {

  private static final Comparator<CriuVersion> ORDER =
      Comparator.comparingInt(CriuVersion::major)
          .thenComparingInt(CriuVersion::minor)
          .thenComparingInt(CriuVersion::sublevel);

  @Override
  public int compareTo(CriuVersion other) {
    return ORDER.compare(this, other);
  }

  @Override
  public String toString() {
    return sublevel == 0 ? major + "." + minor : major + "." + minor + "." + sublevel;
  }
}
