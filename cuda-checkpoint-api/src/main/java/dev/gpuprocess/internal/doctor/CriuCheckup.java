package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.doctor.Finding.Severity;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.CriuVersion;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.stream.Stream;

/** Checks CRIU and what it needs. */
final class CriuCheckup {

  /** A driver should bound its own calls; this is for one that does not. */
  private static final Duration DEADLINE = Duration.ofMinutes(2);

  /** The check that tells whether CRIU works here. */
  static final String CHECK = "criu check";

  private static final String FIREWALL = "iptables-restore";

  private final Checkup checkup;
  private final EngineContext context;

  CriuCheckup(Checkup checkup, EngineContext context) {
    this.checkup = checkup;
    this.context = context;
  }

  /** The CRIU driver, if there is one. */
  Optional<CriuDriver> driver() {
    return checkup.ask("CRIU", DEADLINE, context::criu);
  }

  /**
   * The CRIU driver for the dump of a process; without a CRIU that works here that is a problem of
   * the dump.
   */
  Optional<CriuDriver> driverForDump() {
    Optional<CriuDriver> driver = driver();
    Optional<Finding> finding =
        driver.flatMap(criu -> checkup.ask("CRIU", DEADLINE, () -> versionOrWhyNot(criu)));
    finding.ifPresent(checkup::add);
    if (finding.isEmpty()) {
      checkup.add(noDump("there is no answer from CRIU"));
    }
    return driver.filter(criu -> !finding.map(Finding::isProblem).orElse(true));
  }

  private static Finding versionOrWhyNot(CriuDriver criu) {
    try {
      return new Finding(Severity.OK, "CRIU", fit(criu.version()), "");
    } catch (GpuCheckpointException e) {
      return noDump(String.valueOf(e.getMessage()));
    }
  }

  private static Finding noDump(String why) {
    return new Finding(Severity.PROBLEM, "dump is not possible", why, "");
  }

  private static String fit(CriuVersion version) {
    return "version " + version + ", fit for this kernel";
  }

  void look() {
    driver()
        .ifPresent(
            criu -> {
              lookAt(criu);
              AmdCheckup amd = new AmdCheckup(checkup, context, AmdCheckup.DEVICE);
              checkup.look(AmdCheckup.SUBJECT, context.timeouts().call(), () -> amd.look(criu));
            });
    checkup.look(FIREWALL, context.timeouts().call(), this::lookForFirewall);
  }

  private void lookForFirewall() {
    if (Stream.of(String.valueOf(System.getenv("PATH")).split(":"))
        .noneMatch(directory -> Files.isExecutable(Path.of(directory, FIREWALL)))) {
      checkup.warning(
          FIREWALL,
          "is not on the PATH; CRIU runs it to dump connected TCP sockets"
              + " (CriuOptions.tcpEstablished), and for nothing else",
          "install iptables if you need that");
    }
  }

  private void lookAt(CriuDriver criu) {
    checkup
        .ask("CRIU", DEADLINE, criu::version)
        .ifPresent(
            version -> {
              checkup.ok("CRIU", fit(version));
              checkup
                  .ask(
                      CHECK,
                      DEADLINE,
                      () -> {
                        criu.check();
                        return true;
                      })
                  .ifPresent(passed -> checkup.ok(CHECK, "this kernel has what it needs"));
            });
  }
}
