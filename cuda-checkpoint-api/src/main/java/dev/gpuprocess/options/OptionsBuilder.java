package dev.gpuprocess.options;

/**
 * What all builders of options have in common: options keep a private copy of their builder.
 *
 * @param <B> the builder's own type
 */
abstract class OptionsBuilder<B extends OptionsBuilder<B>> implements Cloneable {

  /** Lists are replaced and never changed, so a shallow copy shares nothing that changes. */
  @SuppressWarnings("unchecked")
  final B copy() {
    try {
      return (B) clone();
    } catch (CloneNotSupportedException e) {
      throw new AssertionError(e);
    }
  }
}
