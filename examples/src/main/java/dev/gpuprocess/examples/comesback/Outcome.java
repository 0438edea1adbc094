package dev.gpuprocess.examples.comesback;

/**
 * What became of a process.
 *
 * @param verdict the judgement
 * @param text why
 */
record Outcome(Verdict verdict, String text) {

  /** A judgement; the first four are good. */
  enum Verdict {
    CAME_BACK,
    /** The process runs on, and each attribute is as before. */
    REFUSED,
    /** An attribute was lost, which the caller allowed and the manifest names. */
    ALLOWED_LOSS,
    /** This machine does not have an attribute or does not permit it. */
    NOT_HERE,
    LOST,
    CHANGED;

    boolean isGood() {
      return compareTo(LOST) < 0;
    }

    boolean isAccepted() {
      return this != REFUSED && this != NOT_HERE;
    }

    boolean isBack() {
      return this == CAME_BACK || this == ALLOWED_LOSS;
    }
  }
}
