package dev.gpuprocess.examples.verification;

/**
 * A row of the table that {@link GpuVerify} prints.
 *
 * @param what was checked
 * @param verdict how it went
 * @param numbers what was measured, or why it failed or was skipped
 */
record Outcome(String what, Verdict verdict, String numbers) {

  /** How a check went. */
  enum Verdict {
    PASSED,
    FAILED,
    SKIPPED
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
