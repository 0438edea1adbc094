package dev.gpuprocess.error;

/** What an exception of any group says about a CRIU that failed. */
public interface CriuReport {

  /**
   * What CRIU left behind.
   *
   * @return its answer and what matters of its log
   */
  CriuFailure criu();
}
