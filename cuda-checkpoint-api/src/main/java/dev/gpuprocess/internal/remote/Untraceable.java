package dev.gpuprocess.internal.remote;

/**
 * Why no system call can be made in a process. Nothing has happened to it.
 *
 * @param reason for programs
 * @param sentence for an operator
 */
public record Untraceable(Reason reason, String sentence) {

  /** What stands in the way. */
  public enum Reason {
    /** This is no x86_64 machine. */
    MACHINE,
    /** The process is this JVM. */
    OURSELVES,
    /** It is gone, or was killed. */
    GONE,
    /** Its program is for 32 bits. */
    BITS_32,
    /** It has shadow stacks, which a return through a signal frame would need to match. */
    SHADOW_STACK,
    /** Another tracer, such as a debugger, is at it. */
    TRACED,
    /** The kernel does not let this user trace it. */
    NOT_PERMITTED,
    /** A signal has stopped it. */
    STOPPED,
    /** Seccomp forbids a call, or may forbid it. */
    SECCOMP,
    /** Its own system calls are dispatched to a signal handler (Wine). */
    DISPATCHED,
    /** No library of it has the instructions that are needed. */
    NO_INSTRUCTIONS,
    /** The floating point registers of this CPU have parts that are not known here. */
    REGISTERS,
    /** None of its threads can be borrowed: all are on stacks without room, or do not stop. */
    NO_THREAD,
    /** It did not stop or answer in time. */
    TIME
  }

  /** To throw where nothing was done. */
  UntraceableException exception() {
    return new UntraceableException(this);
  }
}
