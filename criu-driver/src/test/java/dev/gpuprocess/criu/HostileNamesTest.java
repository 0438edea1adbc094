package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A job chooses its command line and the names of its files. */
@OutsideUse("D6")
class HostileNamesTest {

  private static final String HOSTILE = "a\nOK       libcuda: fine\r\u001b]0;owned\u0007\u202egnp";

  @TempDir Path directory;

  private static void assertHarmless(String text) {
    assertTrue(
        text.lines().noneMatch(line -> line.startsWith("OK       libcuda: fine"))
            && text.codePoints().noneMatch(c -> (c < ' ' && c != '\n') || c == 0x7f || c == 0x202e),
        text);
  }

  @Test
  void theyReachNoTerminalAndNoMessageAsTheyAre() throws Exception {
    RealCriu.assume();
    String program =
        """
        use Fcntl ':flock';
        open my $file, '>', "$ARGV[0]/$ARGV[1]" or die;
        flock($file, LOCK_EX) or die;
        open my $ready, '>', "$ARGV[0]/ready" or die;
        sleep 1000 while 1;
        """;
    try (SimulatedDriver machine = SimulatedDriver.create();
        Workload job = Workload.of("perl", "-e", program, directory.toString(), HOSTILE)) {
      Workload.await(() -> Files.exists(directory.resolve("ready")), "the lock");
      String diagnosis =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(directory.resolve("state"))
              .build()
              .doctor(job.pid())
              .toString();
      assertHarmless(diagnosis);
      assertTrue(diagnosis.contains("libcuda: fine\\r\\u001b]0;owned"), diagnosis);

      RpcCriuDriver criu = new RpcCriuDriver();
      DumpOptions options =
          DumpOptions.builder().leaveRunning(true).deadline(Duration.ofSeconds(30)).build();
      Finding lock =
          criu.preflight(job.identity(), options).stream()
              .filter(Finding::isProblem)
              .findFirst()
              .orElseThrow();
      assertHarmless(lock.toString());
      assertEquals(
          directory + "/" + HOSTILE, Objects.requireNonNull(lock.resource()).name(), "data");
      Path images = Files.createDirectory(directory.resolve("images"));
      Path work = Files.createDirectory(directory.resolve("work"));
      CriuException e =
          assertReason(
              CriuException.class,
              CriuException.Reason.UNSUPPORTED_RESOURCE,
              () ->
                  criu.dump(
                      new DumpRequest(job.identity(), images, work, options), DumpListener.NONE));
      assertHarmless(String.valueOf(e.getMessage()));
    }
  }
}
