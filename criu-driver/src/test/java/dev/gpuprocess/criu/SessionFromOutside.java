package dev.gpuprocess.criu;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import java.nio.file.Path;

/**
 * For a JVM in a pid namespace whose session's leader is outside: looks at a child, and dumps it.
 */
final class SessionFromOutside {

  private SessionFromOutside() {}

  /**
   * Prints what is found and what the dump then fails at.
   *
   * @param args a directory
   */
  public static void main(String[] args) {
    Path directory = Path.of(args[0]);
    DumpDirectories site = DumpDirectories.in(directory.resolve("site"), new RpcCriuDriver());
    DumpOptions options = DumpDirectories.dump().build();
    try (Workload counter = Workload.counter(directory)) {
      site.driver().preflight(counter.identity(), options).stream()
          .filter(Finding::isProblem)
          .forEach(finding -> System.out.println("found: " + finding));
      try {
        site.dump(counter.identity(), options);
      } catch (CriuException e) {
        counter.assertGoesOn();
        System.out.println("failed: " + e.getMessage());
      }
    }
  }
}
