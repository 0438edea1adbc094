package dev.gpuprocess.internal.remote;

/** No system call could be made in a process. The process continues unchanged. */
public final class UntraceableException extends Exception {

  private static final long serialVersionUID = 1;

  /** Why no system call could be made. */
  public enum Reason {
    /** This machine is not x86_64. */
    MACHINE,
    /** The process is this JVM. */
    OURSELVES,
    /** The process or thread has ended. */
    GONE,
    /** The program is for 32 bits. */
    BITS_32,
    /** The process has shadow stacks, which a return through a signal frame would have to match. */
    SHADOW_STACK,
    /** Another tracer, such as a debugger, traces the process. */
    TRACED,
    /** The kernel does not let this user trace the process. */
    NOT_PERMITTED,
    /** A signal has stopped the process. */
    STOPPED,
    /** Seccomp forbids a call, or may forbid it. */
    SECCOMP,
    /** The process dispatches its system calls to a signal handler, as Wine does. */
    DISPATCHED,
    /** The process has not mapped the instructions that a remote call needs. */
    NO_INSTRUCTIONS,
    /** This CPU has floating point registers that this library does not know. */
    REGISTERS,
    /** No thread can be borrowed: their stacks have no space, or they do not stop. */
    NO_THREAD,
    /** A thread did not stop or return in time. */
    TIME
  }

  private final Reason reason;

  UntraceableException(Reason reason, String message) {
    super(message);
    this.reason = reason;
  }

  /** Returns why no system call could be made. */
  public Reason reason() {
    return reason;
  }
}
