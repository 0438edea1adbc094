package dev.gpuprocess.internal.text;

/** The label of an image: what its maker calls it. */
public final class Label {

  /** In characters. */
  private static final int LONGEST = 200;

  private Label() {}

  /**
   * Checks one.
   *
   * @return the same
   * @throws IllegalArgumentException when it is blank, too long, or has control characters in it
   */
  public static String require(String label) {
    if (label.isBlank()
        || label.length() > LONGEST
        || label.chars().anyMatch(Character::isISOControl)) {
      throw new IllegalArgumentException(
          "a label has 1 to %s characters and no control characters".formatted(LONGEST));
    }
    return label;
  }
}
