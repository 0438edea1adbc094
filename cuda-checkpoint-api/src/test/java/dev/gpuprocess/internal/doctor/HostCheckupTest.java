package dev.gpuprocess.internal.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Rights and settings of other hosts, from files in a directory. */
class HostCheckupTest {

  private static final Capabilities ALL = new Capabilities(true, -1, 0, -1, 0);
  private static final Capabilities NONE = new Capabilities(false, 0, 0, -1, 0);

  @TempDir Path root;
  private final Checkup checkup = new Checkup();

  private void write(String file, String text) throws IOException {
    Path path = root.resolve(file);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text + "\n");
  }

  private List<Finding> look(Capabilities ours, Severity severity) {
    new HostCheckup(checkup, root, ours).look();
    return checkup.diagnosis().findings().stream().filter(f -> f.severity() == severity).toList();
  }

  @Test
  void rootOnAPlainKernelIsFine() {
    assertEquals(List.of(), look(ALL, Severity.PROBLEM));
    assertTrue(checkup.diagnosis().isHealthy());
  }

  @Test
  void userWithoutRightsHasProblems() {
    List<Finding> problems = look(NONE, Severity.PROBLEM);
    assertEquals(List.of("rights for CRIU"), problems.stream().map(Finding::subject).toList());
    List<String> warnings =
        checkup.diagnosis().findings().stream()
            .filter(f -> f.severity() == Severity.WARNING)
            .map(Finding::subject)
            .toList();
    assertEquals(List.of("CAP_SYS_PTRACE", "CAP_NET_ADMIN"), warnings);
  }

  @Test
  void userWhoseCriuHasOtherRightsIsFine() {
    checkup.ok("criu check", "this kernel has what it needs");
    assertEquals(List.of(), look(NONE, Severity.PROBLEM));
  }

  @Test
  void tracingThatIsDisabledIsAProblemEvenForRoot() throws IOException {
    write("proc/sys/kernel/yama/ptrace_scope", "3");
    assertEquals("ptrace_scope", look(ALL, Severity.PROBLEM).get(0).subject());
  }

  @Test
  void restrictedTracingIsAProblemWithoutTheRight() throws IOException {
    write("proc/sys/kernel/yama/ptrace_scope", "1");
    assertEquals(List.of(), look(ALL, Severity.PROBLEM));
    assertEquals("ptrace_scope", look(NONE, Severity.PROBLEM).get(1).subject());
  }

  @Test
  void hugePagesAreAFact() throws IOException {
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    String told =
        look(ALL, Severity.OK).stream()
            .filter(finding -> finding.subject().equals("transparent huge pages"))
            .findFirst()
            .orElseThrow()
            .toString();
    assertTrue(told.contains("set to madvise") && told.contains("echo always"), told);
  }

  @Test
  void memoryThatIsTooSmallForAllIsAWarning() throws IOException {
    write("proc/meminfo", "MemTotal: 999 kB\nMemAvailable:  1048576 kB\nSwapFree: 0 kB");
    HostCheckup host = new HostCheckup(checkup, root, ALL);
    host.lookAtMemory(1L << 30);
    host.lookAtMemory((1L << 30) + 1);
    assertEquals(
        List.of(Severity.OK, Severity.WARNING),
        checkup.diagnosis().findings().stream().map(Finding::severity).toList());
  }
}
