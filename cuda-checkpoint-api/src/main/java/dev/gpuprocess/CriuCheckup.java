package dev.gpuprocess;

import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.stream.Stream;

/** Looks at CRIU and at what it needs. */
final class CriuCheckup {

  /** The driver bounds its calls itself; this is for one that does not. */
  private static final Duration DEADLINE = Duration.ofMinutes(2);

  private static final String FIREWALL = "iptables-restore";

  private final Checkup checkup;
  private final GpuCheckpoints checkpoints;

  CriuCheckup(Checkup checkup, GpuCheckpoints checkpoints) {
    this.checkup = checkup;
    this.checkpoints = checkpoints;
  }

  /** Whether there is a driver to ask. */
  Optional<CriuDriver> driver() {
    return checkup.ask("CRIU", DEADLINE, checkpoints::criu);
  }

  void look() {
    driver().ifPresent(this::lookAt);
    if (Stream.of(String.valueOf(System.getenv("PATH")).split(":"))
        .noneMatch(directory -> Files.isExecutable(Path.of(directory, FIREWALL)))) {
      checkup.warning(
          FIREWALL,
          "is not on the PATH; CRIU runs it to dump connected TCP sockets"
              + " (DumpOptions.tcpEstablished), and for nothing else",
          "install iptables if you need that");
    }
  }

  private void lookAt(CriuDriver criu) {
    checkup
        .ask("CRIU", DEADLINE, criu::version)
        .ifPresent(
            version -> {
              checkup.ok("CRIU", "version " + version + ", fit for this kernel");
              checkup
                  .ask(
                      "criu check",
                      DEADLINE,
                      () -> {
                        criu.check();
                        return true;
                      })
                  .ifPresent(passed -> checkup.ok("criu check", "this kernel has what it needs"));
            });
  }
}
