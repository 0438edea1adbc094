package dev.gpuprocess.internal.time;

/** Makes the threads of this library, which do not keep a JVM alive. */
public final class Threads {

  private Threads() {}

  /** Returns a daemon thread that is not started. */
  public static Thread daemon(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    return thread;
  }
}
