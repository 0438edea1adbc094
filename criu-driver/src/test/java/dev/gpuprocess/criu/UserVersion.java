package dev.gpuprocess.criu;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.GpuCheckpointException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Prints the CRIU version of a driver without settings, in a JVM of another user. */
final class UserVersion {

  private UserVersion() {}

  private static void dump(RpcCriuDriver driver) throws IOException {
    Path directory = Files.createTempDirectory("dumped");
    try (Workload workload = Workload.counter(directory)) {
      try {
        DumpDirectories.in(directory.resolve("site"), driver)
            .dump(workload.identity(), DumpDirectories.dump().build());
      } catch (GpuCheckpointException e) {
        System.out.println(e.getMessage());
      }
      workload.assertGoesOn();
      System.out.println("it counts on");
    }
  }

  /**
   * Looks for CRIU and asks it.
   *
   * @param args anything to have a dump made as well
   */
  public static void main(String[] args) throws IOException {
    RpcCriuDriver driver = new RpcCriuDriver();
    try {
      System.out.println("version " + driver.version());
      driver.check();
      System.out.println("it may do its work");
      if (args.length > 0) {
        dump(driver);
      }
    } catch (GpuCheckpointException e) {
      System.out.println(e.reason() + ": " + e.getMessage());
    }
  }
}
