package dev.gpuprocess.internal.text;

/** Checks the label of an image. */
public final class Label {

  /** The maximum length, in characters. */
  private static final int LONGEST = 200;

  private Label() {}

  /**
   * Checks a label.
   *
   * @return the label
   * @throws IllegalArgumentException when it is blank, has more than 200 characters, or contains
   *     control characters
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
