package dev.gpuprocess.spi;

import java.util.Comparator;

/**
 * A CRIU version.
 *
 * @param major as in 4.2.1
 * @param minor as in 4.2.1
 * @param sublevel as in 4.2.1; 0 for 4.2
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
