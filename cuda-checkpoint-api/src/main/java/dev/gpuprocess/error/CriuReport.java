package dev.gpuprocess.error;

/** What an exception tells of a CRIU that could not do what it was asked, in whatever group. */
public interface CriuReport {

  /**
   * What CRIU left behind.
   *
   * @return its answer and what matters of its log
   */
  CriuFailure criu();
}
