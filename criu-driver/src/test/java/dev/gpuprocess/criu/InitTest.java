package dev.gpuprocess.criu;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A JVM that is the parent of the processes it has restored, and must reap them. */
@OutsideUse("B4")
class InitTest {

  private static final String DONE = "dumped and restored twice";

  /** {@code prctl(PR_SET_CHILD_SUBREAPER, 1)}, which an exec keeps. */
  static final List<String> AS_SUBREAPER =
      List.of(
          "perl",
          "-e",
          "my %number = (x86_64 => 157, aarch64 => 167);"
              + " chomp(my $machine = `uname -m`); syscall($number{$machine}, 36, 1, 0, 0, 0) == 0"
              + " or die; exec @ARGV");

  @TempDir Path directory;

  private void assertReaps(List<String> prefix) throws Exception {
    RealCriu.assume();
    TestJvm.assertEndsSaying(DONE, TestJvm.commandBy(prefix, InitTest.class, directory.toString()));
  }

  /**
   * What the JVM does.
   *
   * @param args a directory
   */
  public static void main(String[] args) {
    Path directory = Path.of(args[0]);
    try (Workload counter = Workload.counter(directory)) {
      ProcessIdentity process = counter.identity();
      for (int round = 1; round <= 2; round++) {
        DumpDirectories site =
            DumpDirectories.in(directory.resolve("site" + round), new RpcCriuDriver());
        site.dump(process, DumpDirectories.dump().build());
        process = site.restore(counter.pid(), DumpDirectories.shellJob().build()).process();
        counter.assertGoesOn();
      }
      Workload.end(process);
      System.out.println(DONE);
    }
    System.exit(0);
  }

  static void assumePidNamespaces() throws Exception {
    List<String> trial = new ArrayList<>(TestJvm.inPidNamespace());
    trial.add("true");
    Assumptions.assumeTrue(new ProcessBuilder(trial).start().waitFor() == 0, "no pid namespaces");
  }

  @Test
  void asTheFirstProcessOfItsNamespace() throws Exception {
    assumePidNamespaces();
    assertReaps(TestJvm.inPidNamespace());
  }

  @Test
  void asChildSubreaper() throws Exception {
    assertReaps(AS_SUBREAPER);
  }
}
