package dev.gpuprocess.report;

import dev.gpuprocess.GpuProcess;

/**
 * Notified of every step as it happens: on the thread that called the verb, and for the members of
 * a process, whose steps overlap, on other threads at the same time. A listener must return quickly
 * and must not call verbs on the same process. An exception that it throws is logged and otherwise
 * ignored: a progress display must not leave a process half way. An {@link Error}, such as a failed
 * assertion, reaches the caller of the verb, but only once the process is in a state where it can
 * stay: a verb that leads away from running is undone first; one that leads back to running, a
 * dump, or a restore from an image is finished first, and {@link GpuProcess#inspect} then returns
 * the process in its new state.
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
   * @param step the step, with its duration and size
   */
  default void finished(Step step) {}

  /**
   * A step failed; the verb throws this exception unless undoing says more.
   *
   * @param name such as {@code lock}
   * @param pid the process
   * @param failure what the step threw; an {@link Error} is its cause
   */
  default void failed(String name, int pid, RuntimeException failure) {}
}
