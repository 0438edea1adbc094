package dev.gpuprocess.internal.remote;

/**
 * No system call could be made in a process. The process goes on as it was; the caller goes on
 * without.
 */
public final class UntraceableException extends Exception {

  private static final long serialVersionUID = 1;

  private final transient Untraceable why;

  UntraceableException(Untraceable why) {
    super(why.sentence());
    this.why = why;
  }

  UntraceableException(Untraceable.Reason reason, String sentence) {
    this(new Untraceable(reason, sentence));
  }

  /** What stands in the way. */
  public Untraceable why() {
    return why;
  }
}
