package dev.gpuprocess.internal.inherited;

/**
 * The GPU device files that children have released. Immutable.
 *
 * @param children how many children
 * @param descriptors how many descriptors are {@code /dev/null} now
 * @param mappings how many mappings are inaccessible memory now
 */
public record Released(int children, int descriptors, int mappings) {

  /** Nothing was released. */
  public static final Released NOTHING = new Released(0, 0, 0);

  /** Returns the sum. */
  public Released and(Released more) {
    return new Released(
        children + more.children, descriptors + more.descriptors, mappings + more.mappings);
  }

  @Override
  public String toString() {
    return "forked children: %s; descriptors dropped: %s; mappings dropped: %s"
        .formatted(children, descriptors, mappings);
  }
}
