package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.os.NativeCallException;
import org.jspecify.annotations.Nullable;

/** It is no use to wait for CRIU any longer; it has to be ended. */
public final class GivenUpException extends Exception {

  private static final long serialVersionUID = 1L;

  /** What kind of reason. */
  public enum Why {
    /** Time has run out. */
    DEADLINE,
    /** The caller wants it no more. */
    CANCELLED,
    /** CRIU does not behave. */
    MISBEHAVIOUR
  }

  private final String reason;
  private final Why why;

  private GivenUpException(String reason, Why why, @Nullable Throwable cause) {
    super(reason, cause);
    this.reason = reason;
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
        "CRIU sent " + bytes + " bytes that are no reply of its protocol", Why.MISBEHAVIOUR, cause);
  }

  static GivenUpException flooding(long bytes) {
    return new GivenUpException(
        "CRIU wrote " + (bytes >> 20) + " MiB of log, as it does when it goes round in circles",
        Why.MISBEHAVIOUR,
        null);
  }

  public static GivenUpException rootDied(int pid) {
    return new GivenUpException(
        "process " + pid + " died, for which CRIU would wait for ever", Why.MISBEHAVIOUR, null);
  }

  static GivenUpException broken(NativeCallException cause) {
    return new GivenUpException(
        "the conversation broke, " + cause.getMessage(), Why.MISBEHAVIOUR, cause);
  }

  /** Why, for the middle of a sentence. */
  public String reason() {
    return reason;
  }

  /** What kind of reason. */
  public Why why() {
    return why;
  }
}
