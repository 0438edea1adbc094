package dev.gpuprocess.internal.inherited;

/**
 * What children have lost. Immutable.
 *
 * @param children how many of them
 * @param descriptors how many of theirs are {@code /dev/null} now
 * @param mappings how many of theirs are inaccessible memory now
 */
public record Released(int children, int descriptors, int mappings) {

  /** Nothing yet. */
  public static final Released NOTHING = new Released(0, 0, 0);

  /** Both together. */
  public Released and(Released more) {
    return new Released(
        children + more.children, descriptors + more.descriptors, mappings + more.mappings);
  }

  /** For an operator. */
  @Override
  public String toString() {
    return "forked children: %s; descriptors dropped: %s; mappings dropped: %s"
        .formatted(children, descriptors, mappings);
  }
}
