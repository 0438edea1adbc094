package dev.gpuprocess;

/**
 * Told of every step while it happens, on the thread that called the verb. It must be quick and
 * must not call verbs on the same process. What it throws is logged and goes no further: a display
 * must not stop a process half way.
 */
public interface StepListener {

  /** A listener that does nothing. */
  StepListener NONE = new StepListener() {};

  /**
   * A step begins.
   *
   * @param name such as {@code lock}
   * @param pid the process
   */
  default void started(String name, int pid) {}

  /**
   * A step succeeded.
   *
   * @param step what it took
   */
  default void finished(Step step) {}

  /**
   * A step failed; the verb throws this exception unless undoing says more.
   *
   * @param name such as {@code lock}
   * @param pid the process
   * @param failure why
   */
  default void failed(String name, int pid, RuntimeException failure) {}
}
