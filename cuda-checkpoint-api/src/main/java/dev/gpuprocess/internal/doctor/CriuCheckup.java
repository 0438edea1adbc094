package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.context.CriuSettings;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.text.OptionText;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.stream.Stream;

/** Checks CRIU and its requirements. */
final class CriuCheckup {

  /** For a CRIU driver whose calls have no deadline of their own. */
  private static final Duration DEADLINE = Duration.ofMinutes(2);

  /** The subject of the check whether CRIU works here. */
  static final String CHECK = "criu check";

  private static final String FIREWALL = "iptables-restore";

  private final Checkup checkup;
  private final EngineContext context;

  CriuCheckup(Checkup checkup, EngineContext context) {
    this.checkup = checkup;
    this.context = context;
  }

  /** Returns the CRIU driver, if there is one. */
  Optional<CriuDriver> driver() {
    return checkup.query("CRIU", DEADLINE, context::criu);
  }

  /**
   * Returns the CRIU driver for the dump of a process. A CRIU that does not work here is a problem
   * of the dump.
   */
  Optional<CriuDriver> driverForDump() {
    Optional<CriuDriver> driver = driver();
    Optional<Finding> finding =
        driver.flatMap(criu -> checkup.query("CRIU", DEADLINE, () -> versionOrWhyNot(criu)));
    finding.ifPresent(checkup::add);
    if (finding.isEmpty()) {
      checkup.add(noDump("CRIU does not answer"));
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

  private static String fit(String version) {
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
    checkup.look("options of CRIU", context.timeouts().call(), this::lookForAdministratorsFile);
    checkup.look(FIREWALL, context.timeouts().call(), this::lookForFirewall);
  }

  private void lookForAdministratorsFile() {
    CriuOptions set = CriuSettings.administrators();
    if (!set.settings(each -> true).isEmpty()) {
      checkup.ok("options of CRIU", "%s sets %s".formatted(CriuSettings.file(), set));
    }
  }

  private void lookForFirewall() {
    if (Stream.of(String.valueOf(System.getenv("PATH")).split(":"))
        .noneMatch(directory -> Files.isExecutable(Path.of(directory, FIREWALL)))) {
      checkup.warning(
          FIREWALL,
          "is not on the PATH; CRIU runs it only to dump connected TCP sockets"
              + " ("
              + OptionText.criu("tcp-established")
              + ")",
          "install iptables if you need that");
    }
  }

  private void lookAt(CriuDriver criu) {
    checkup
        .query("CRIU", DEADLINE, criu::version)
        .ifPresent(
            version -> {
              checkup.ok("CRIU", fit(version));
              checkup
                  .query(
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
