package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.Finding;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Parameters;

/** Prints which requirements the machine or a process meets. */
@Command(
    name = "doctor",
    description =
        "Print what works on this machine, or what prevents a suspend or dump of a process.")
final class DoctorCommand extends CliCommand {

  @Parameters(index = "0", arity = "0..1", paramLabel = "PID", description = "The process.")
  private @Nullable Long pid;

  @Parameters(
      index = "1",
      arity = "0..1",
      paramLabel = "DIR",
      description = "The directory for images.")
  private @Nullable Path directory;

  @Mixin private final CriuArguments criu = new CriuArguments();

  @Override
  CriuOptions criu() {
    return criu.options();
  }

  @Override
  int run(Session session) {
    Diagnosis diagnosis = diagnose(session.machine());
    print(session, diagnosis.findings());
    return diagnosis.isHealthy() ? ExitCode.DONE.code() : ExitCode.PROBLEM.code();
  }

  static void print(Session session, List<Finding> findings) {
    session
        .output()
        .table(
            findings.stream().map(DoctorCommand::value).toList(),
            "severity",
            "subject",
            "finding",
            "cure");
  }

  private Diagnosis diagnose(GpuCheckpoints machine) {
    if (pid == null) {
      return machine.doctor();
    }
    return directory == null
        ? machine.doctor(pid)
        : machine.doctor(pid, directory.resolve("image"), DumpOptions.ofDefaults());
  }

  private static Map<String, @Nullable Object> value(Finding finding) {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("severity", finding.severity().name());
    value.put("subject", finding.subject());
    value.put("finding", OptionForm.of(finding.what()));
    value.put("cure", OptionForm.of(finding.cure()));
    return value;
  }
}
