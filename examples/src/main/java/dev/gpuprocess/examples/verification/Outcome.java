package dev.gpuprocess.examples.verification;

/**
 * The result of a check: a row of the final table.
 *
 * @param what was checked
 * @param verdict whether it passed
 * @param numbers what was measured, or the reason why it failed or was skipped
 */
record Outcome(String what, Verdict verdict, String numbers) {

  enum Verdict {
    PASSED,
    FAILED,
    SKIPPED
  }

  static Outcome of(String what, boolean passed, String numbers) {
    return passed ? passed(what, numbers) : failed(what, numbers);
  }

  static Outcome passed(String what, String numbers) {
    return new Outcome(what, Verdict.PASSED, numbers);
  }

  static Outcome failed(String what, String why) {
    return new Outcome(what, Verdict.FAILED, why);
  }

  static Outcome skipped(String what, String why) {
    return new Outcome(what, Verdict.SKIPPED, why);
  }
}
