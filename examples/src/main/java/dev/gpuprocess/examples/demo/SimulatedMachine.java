package dev.gpuprocess.examples.demo;

import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.IOException;
import java.io.OutputStream;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * {@code SimulatedMachine GPUS PROCESSES MIB}: a machine of simulated GPUs for shell scripts. It
 * starts counters, by turns on all GPUs, prints the directory of the driver, the state directory
 * and their pids in one line, and ends them when standard input is closed.
 */
public final class SimulatedMachine {

  private SimulatedMachine() {}

  /**
   * Runs the machine.
   *
   * @param args the number of GPUs, the number of processes, and the GPU memory of each in MiB
   */
  public static void main(String[] args) throws IOException {
    int gpus = Integer.parseInt(args[0]);
    int mebibytes = Integer.parseInt(args[2]);
    try (SimulatedDriver driver = SimulatedDriver.builder().gpus(gpus).create()) {
      String pids =
          IntStream.range(0, Integer.parseInt(args[1]))
              .mapToObj(i -> driver.start(Counter.launch(mebibytes).gpu(i % gpus)))
              .map(counter -> Long.toString(counter.pid()))
              .collect(Collectors.joining(" "));
      System.out.println(driver.directory() + " " + driver.stateDirectory() + " " + pids);
      System.in.transferTo(OutputStream.nullOutputStream());
    }
  }
}
