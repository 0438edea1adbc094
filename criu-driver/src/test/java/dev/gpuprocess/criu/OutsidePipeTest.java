package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** CRIU does not dump a pipe to a process outside of the tree, and does not report it. */
@OutsideUse("A16")
@RequiresCriu
class OutsidePipeTest {

  private static final Path NOTHING = Path.of("/dev/null");

  private final RpcCriuDriver criu = new RpcCriuDriver();

  @TempDir Path directory;

  private static Process start(
      ProcessBuilder.Redirect in, ProcessBuilder.Redirect out, String program) throws IOException {
    return new ProcessBuilder("perl", "-e", program)
        .redirectInput(in)
        .redirectOutput(out)
        .redirectError(ProcessBuilder.Redirect.DISCARD)
        .start();
  }

  private List<Finding> problems(Process process, DumpOptions options) {
    return criu.preflight(ProcessIdentity.of(process.pid()).orElseThrow(), options).stream()
        .filter(Finding::isProblem)
        .toList();
  }

  private static long pipe(Process process, int descriptor) throws IOException {
    Path link = Path.of("/proc", Long.toString(process.pid()), "fd", "" + descriptor);
    return Long.parseLong(Files.readSymbolicLink(link).toString().replaceAll("\\D", ""));
  }

  @Test
  void standardOutputToSomebodyElse_isRefused_andItsReaderNamed() throws Exception {
    RealCriu.assume();
    Process writer =
        start(
            ProcessBuilder.Redirect.from(NOTHING.toFile()),
            ProcessBuilder.Redirect.PIPE,
            "$| = 1; print 'x'; sleep 1000 while 1");
    try {
      assertEquals('x', writer.getInputStream().read());
      long inode = pipe(writer, 1);
      List<Finding> found = problems(writer, DumpOptions.ofDefaults());
      assertEquals(1, found.size(), found::toString);
      String text = found.get(0).toString();
      assertTrue(text.contains("descriptor 1: pipe:[" + inode + "] is its standard output"), text);
      assertTrue(text.contains("process " + ProcessHandle.current().pid() + " (java)"), text);
      assertTrue(text.contains("start the process with a file in its place"), text);
      String option = "CriuOptions.set(\"external=pipe[%d]\")".formatted(inode);
      assertEquals(option, Objects.requireNonNull(found.get(0).resource()).option());

      DumpOptions told =
          DumpOptions.builder()
              .leaveRunning(true)
              .criu(c -> c.external(External.pipe(inode)))
              .build();
      assertEquals(List.of(), problems(writer, told));
      Path images = Files.createDirectory(directory.resolve("images"));
      Path work = Files.createDirectory(directory.resolve("work"));
      ProcessIdentity identity = ProcessIdentity.of(writer.pid()).orElseThrow();
      criu.dump(new DumpRequest(identity, images, work, told), DumpListener.NONE);
      assertTrue(writer.isAlive());
    } finally {
      writer.destroyForcibly().waitFor();
    }
  }

  @Test
  void standardInputFromSomebodyElse_isRefused() throws Exception {
    Process reader =
        start(
            ProcessBuilder.Redirect.PIPE,
            ProcessBuilder.Redirect.to(NOTHING.toFile()),
            "sleep 1000 while 1");
    try {
      List<Finding> found = problems(reader, DumpOptions.ofDefaults());
      assertEquals(1, found.size(), found::toString);
      assertTrue(
          found.get(0).what().contains("the next read returns end of file"), found::toString);
    } finally {
      reader.destroyForcibly().waitFor();
    }
  }

  /** The pipe has no reader now or after a restore: nothing is lost. */
  @Test
  void aPipeThatNobodyReads_isNoProblem() throws Exception {
    Process writer =
        start(
            ProcessBuilder.Redirect.from(NOTHING.toFile()),
            ProcessBuilder.Redirect.PIPE,
            "$| = 1; print 'x'; sleep 1000 while 1");
    try (InputStream out = writer.getInputStream()) {
      assertEquals('x', out.read());
      out.close();
      assertEquals(List.of(), problems(writer, DumpOptions.ofDefaults()));
    } finally {
      writer.destroyForcibly().waitFor();
    }
  }

  @Test
  void pipesWithinTheTree_areNoProblem() throws Exception {
    Path ready = directory.resolve("ready");
    String program =
        "pipe my $r, my $w or die; if (fork) { close $r } else { close $w; open my $f, '>', '%s' }"
            + " sleep 1000 while 1";
    try (Workload tree = Workload.of("perl", "-e", program.formatted(ready))) {
      Workload.await(() -> Files.exists(ready), "the child");
      List<ProcessIdentity> children =
          dev.gpuprocess.internal.proc.ProcFs.descendants(tree.pid()).stream()
              .flatMap(pid -> ProcessIdentity.of(pid).stream())
              .toList();
      try {
        assertEquals(1, children.size());
        assertEquals(
            List.of(),
            criu.preflight(tree.identity(), DumpOptions.ofDefaults()).stream()
                .filter(Finding::isProblem)
                .toList());
      } finally {
        children.forEach(Workload::end);
      }
    }
  }
}
