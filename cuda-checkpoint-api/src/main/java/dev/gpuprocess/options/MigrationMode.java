package dev.gpuprocess.options;

/** How the memory of a process comes to another host. */
public enum MigrationMode {
  /**
   * All of it is sent to a page server of the receiver, and is on its disk, before the process may
   * die here (CRIU {@code page-server}). The process stands still as long as that takes, and is
   * whole on one of the hosts at every moment.
   */
  PAGE_SERVER,
  /**
   * The process goes on there at once, and its memory follows when it is asked for (CRIU {@code
   * lazy-pages}), which is called post-copy. Until all of it is there the process needs both hosts
   * and the network.
   */
  LAZY_PAGES
}
