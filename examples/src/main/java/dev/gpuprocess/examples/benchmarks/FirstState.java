package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.GpuProcess;

/** A program that reads the state of one process; {@link Bench} measures its duration. */
public final class FirstState {

  private FirstState() {}

  /**
   * Prints the state of a process.
   *
   * @param args the pid, or no argument for an empty program
   */
  public static void main(String[] args) {
    for (String pid : args) {
      System.out.println(GpuProcess.inspect(Long.parseLong(pid)).state());
    }
  }
}
