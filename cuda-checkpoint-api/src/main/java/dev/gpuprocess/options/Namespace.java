package dev.gpuprocess.options;

/** The kinds of namespaces that a restored tree can join (CRIU {@code join-ns}). */
public enum Namespace {
  /** System V IPC and POSIX message queues. */
  IPC,
  /** Mounts. */
  MNT,
  /** Network devices, addresses, ports. */
  NET,
  /** Boot-time and monotonic clocks. */
  TIME,
  /** Users and capabilities. */
  USER,
  /** Host name. */
  UTS
}
