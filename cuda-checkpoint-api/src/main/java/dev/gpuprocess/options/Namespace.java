package dev.gpuprocess.options;

/** The kinds of namespaces that a restored tree can be put into. */
public enum Namespace {
  /** System V IPC and POSIX message queues. */
  IPC,
  /** Mounts. */
  MNT,
  /** Network devices, addresses, ports. */
  NET,
  /** Boot and monotonic clock. */
  TIME,
  /** Users and capabilities. */
  USER,
  /** Host name. */
  UTS
}
