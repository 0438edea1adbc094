package dev.gpuprocess.criu;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.util.List;

/** Dumps and restores a process as a user with some capabilities. */
final class CapableUser {

  /** Has CRIU check the kernel first. */
  static final String CHECK = "check";

  static final String DONE = "dumped and restored";

  private CapableUser() {}

  /**
   * Dumps and restores.
   *
   * @param args {@link #CHECK}, or none
   */
  public static void main(String[] args) {
    Path home = Path.of("").toAbsolutePath();
    String said = DONE;
    try (Workload counter = Workload.counter(home)) {
      RpcCriuDriver driver = new RpcCriuDriver();
      if (List.of(args).contains(CHECK)) {
        driver.check();
      }
      DumpDirectories site = DumpDirectories.in(home.resolve("site"), driver);
      site.dump(counter.identity(), DumpDirectories.dump().build());
      ProcessIdentity restored =
          site.restore(counter.pid(), DumpDirectories.shellJob().build()).process();
      counter.assertGoesOn();
      Workload.end(restored);
    } catch (CriuException e) {
      said = e.reason() + ": " + e.getMessage();
    }
    System.out.println(said);
    System.exit(0);
  }
}
