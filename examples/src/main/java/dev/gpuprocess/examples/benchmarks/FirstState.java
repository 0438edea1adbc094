package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.GpuProcess;

/** Reads the state of one process and ends; {@link Bench} measures how long that takes. */
public final class FirstState {

  private FirstState() {}

  /**
   * Prints the state of a process.
   *
   * @param args its pid, or nothing for a program that does nothing
   */
  public static void main(String[] args) {
    for (String pid : args) {
      System.out.println(GpuProcess.inspect(Long.parseLong(pid)).state());
    }
  }
}
