package dev.gpuprocess.criu;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;

/** Dumps and restores a process as a user with some capabilities. */
final class CapableUser {

  static final String DONE = "dumped and restored";

  private CapableUser() {}

  /**
   * Dumps and restores.
   *
   * @param args none
   */
  public static void main(String[] args) {
    Path home = Path.of("").toAbsolutePath();
    String said = DONE;
    try (Workload counter = Workload.counter(home)) {
      DumpDirectories site = DumpDirectories.in(home.resolve("site"), new RpcCriuDriver());
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
