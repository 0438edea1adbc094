package dev.gpuprocess.criu.internal.process;

import org.jspecify.annotations.Nullable;

/** A request to CRIU cannot succeed any more, and CRIU has to be killed. */
public final class GivenUpException extends Exception {

  private static final long serialVersionUID = 1L;

  /** The kind of reason. */
  public enum Why {
    /** The deadline has passed. */
    DEADLINE,
    /** The caller has cancelled. */
    CANCELLED,
    /** CRIU misbehaves. */
    MISBEHAVIOUR
  }

  private final Why why;

  private GivenUpException(String reason, Why why, @Nullable Throwable cause) {
    super(reason, cause);
    this.why = why;
  }

  public static GivenUpException deadline() {
    return new GivenUpException("the deadline passed", Why.DEADLINE, null);
  }

  public static GivenUpException cancelled() {
    return new GivenUpException("it was cancelled", Why.CANCELLED, null);
  }

  static GivenUpException garbage(int bytes, Throwable cause) {
    return new GivenUpException(
        "CRIU sent " + bytes + " bytes that are not a message of its protocol",
        Why.MISBEHAVIOUR,
        cause);
  }

  static GivenUpException flooding(long bytes) {
    return new GivenUpException(
        "CRIU wrote " + (bytes >> 20) + " MiB of log, as it does when it is caught in a loop",
        Why.MISBEHAVIOUR,
        null);
  }

  public static GivenUpException rootDied(int pid) {
    return new GivenUpException(
        "process " + pid + " died, and CRIU would wait for it forever", Why.MISBEHAVIOUR, null);
  }

  static GivenUpException broken(Exception cause) {
    return new GivenUpException(
        "the connection to CRIU failed, " + cause.getMessage(), Why.MISBEHAVIOUR, cause);
  }

  /** Returns the reason, for the middle of a sentence. */
  public String reason() {
    return String.valueOf(getMessage());
  }

  /** Returns the kind of reason. */
  public Why why() {
    return why;
  }
}
