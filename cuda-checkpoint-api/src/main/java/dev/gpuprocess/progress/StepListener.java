package dev.gpuprocess.progress;

import dev.gpuprocess.GpuProcess;

/**
 * Told of every step while it happens, on the thread that called the verb. It must be quick and
 * must not call verbs on the same process. An exception that it throws is logged and goes no
 * further: a display must not stop a process half way. An {@link Error}, such as a failed
 * assertion, reaches the caller of the verb, but only when the process is where it can stay: a verb
 * that leads away from running is undone first; one that leads back to running, a dump, or a
 * restore from an image is finished first, and {@link GpuProcess#inspect} gives the process as it
 * is then.
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
