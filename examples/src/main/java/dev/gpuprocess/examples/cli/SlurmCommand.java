package dev.gpuprocess.examples.cli;

import dev.gpuprocess.examples.slurm.EndedJobs;
import dev.gpuprocess.examples.slurm.JobEvents;
import dev.gpuprocess.examples.slurm.JobRun;
import dev.gpuprocess.examples.slurm.Scontrol;
import dev.gpuprocess.examples.slurm.SlurmCheck;
import dev.gpuprocess.examples.slurm.SlurmJob;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.report.Finding;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** The commands for jobs of Slurm. */
@Command(
    name = "slurm",
    description = "Run a command in a Slurm job that can be preempted, or check a cluster for it.",
    synopsisSubcommandLabel = "COMMAND",
    mixinStandardHelpOptions = true,
    subcommands = {SlurmCommand.Run.class, SlurmCommand.Check.class, SlurmCommand.Prune.class})
final class SlurmCommand {

  private static final String SCONTROL = "scontrol";
  private static final DateTimeFormatter TIME =
      DateTimeFormatter.ofPattern("HH:mm:ss", Locale.ROOT);

  /** {@code slurm run}. */
  @Command(
      name = "run",
      description = {
        "Launch a command, or continue it from the newest image of this Slurm job.",
        "On SIGUSR1, and on SIGTERM of a preempted job, dump it and requeue the job.",
        "Call it by exec in a batch script with --requeue --open-mode=append --signal=B:USR1@N.",
        "The exit code is that of the command, or 128 and the signal; 75: requeued; 70: the job"
            + " cannot be restored, and its images are kept."
      })
  static final class Run extends CliCommand {

    private static final Duration DEFAULT_GRACE = Duration.ofMinutes(2);

    @Option(
        names = "--images",
        paramLabel = "DIR",
        required = true,
        description = "The directory for images of all jobs, on a disk that all nodes share.")
    private Path images = Path.of("");

    @Option(
        names = "--every",
        paramLabel = "TIME",
        converter = Seconds.class,
        description = "Make a snapshot in this interval, for a node that crashes.")
    private @Nullable Duration every;

    @Option(
        names = "--grace",
        paramLabel = "TIME",
        converter = Seconds.class,
        description =
            "The time for the dump, from the signal on; GraceTime of the partition by default, or"
                + " 120 s.")
    private @Nullable Duration grace;

    @Option(
        names = "--attempts",
        paramLabel = "N",
        description = "Give up after N restores that failed, each on another node; 3 by default.")
    private int attempts = 3;

    @Option(
        names = "--isolated",
        negatable = true,
        description =
            "Give the command namespaces of its own, so that its pids are free on each node; by"
                + " default if this is root.")
    private @Nullable Boolean isolated;

    @Option(
        names = "--keep-images",
        description = "Keep the images when the command has ended; they are removed by default.")
    private boolean keepsImages;

    @Mixin private final CriuArguments criu = new CriuArguments();

    @Mixin private final LossArguments losses = new LossArguments();

    @Mixin private final PollArguments polls = new PollArguments();

    @Override
    boolean allowsPolls() {
      return polls.areAllowed();
    }

    @Override
    Attribute[] allowedLosses() {
      return losses.attributes();
    }

    @Override
    CriuOptions criu() {
      return criu.options();
    }

    @Parameters(paramLabel = "COMMAND", arity = "1..*", description = "The command, after --.")
    private List<String> command = List.of();

    @Override
    int run(Session session) {
      // First of all: until here a signal ends this JVM.
      JobEvents events = JobEvents.ofThisProcess();
      Scontrol scontrol = new Scontrol(SCONTROL);
      SlurmJob job = job();
      JobRun.Settings settings =
          new JobRun.Settings(
              images,
              every,
              grace != null ? grace : scontrol.grace(job.partition()).orElse(DEFAULT_GRACE),
              attempts,
              isolated != null ? isolated : isRoot(),
              keepsImages,
              command);
      JobRun run =
          new JobRun(
              session.machine(),
              job,
              scontrol,
              settings,
              events,
              text ->
                  session.note(
                      "%s %s".formatted(LocalTime.now(ZoneId.systemDefault()).format(TIME), text)));
      try {
        return run.run();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new CommandException(
            ExitCode.RETRY_LATER,
            "CANCELLED",
            "interrupted: the command of the job ends with this process");
      }
    }

    private static SlurmJob job() {
      try {
        return SlurmJob.of(System.getenv());
      } catch (IllegalStateException e) {
        throw new CommandException(
            ExitCode.FIX_AND_RETRY, "NO_SLURM_JOB", String.valueOf(e.getMessage()));
      }
    }

    private static boolean isRoot() {
      try {
        return Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0);
      } catch (IOException e) {
        return false;
      }
    }
  }

  /** {@code slurm check}. */
  @Command(
      name = "check",
      description = "Print which settings of the cluster and of this node a preempted job needs.")
  static final class Check extends CliCommand {

    @Option(
        names = "--images",
        paramLabel = "DIR",
        required = true,
        description = "The directory for images; a file of 256 MiB is written there, and removed.")
    private Path images = Path.of("");

    @Option(
        names = "--partition",
        paramLabel = "NAME",
        description = "The partition whose jobs are preempted; that of this job by default.")
    private @Nullable String partition;

    @Option(
        names = "--bytes",
        paramLabel = "BYTES",
        description = "What a job holds on its GPUs; the memory of the largest GPU by default.")
    private @Nullable Long bytes;

    @Override
    int run(Session session) {
      List<Finding> findings =
          new SlurmCheck(
                  session.machine(),
                  new Scontrol(SCONTROL),
                  partition != null
                      ? partition
                      : System.getenv().getOrDefault("SLURM_JOB_PARTITION", ""),
                  images,
                  bytes == null ? OptionalLong.empty() : OptionalLong.of(bytes))
              .run();
      DoctorCommand.print(session, findings);
      return findings.stream().anyMatch(Finding::isProblem)
          ? ExitCode.PROBLEM.code()
          : ExitCode.DONE.code();
    }
  }

  /** {@code slurm prune}. */
  @Command(
      name = "prune",
      description = {
        "Remove the images of jobs that have ended: the code of their command is recorded, or Slurm"
            + " does not know them any more.",
        "Directories of other users stay: run it as the user of the jobs, on a node of the cluster."
      })
  static final class Prune extends CliCommand {

    private static final Duration DEFAULT_AGE = Duration.ofDays(7);

    @Option(
        names = "--images",
        paramLabel = "DIR",
        required = true,
        description = "The directory for images of all jobs.")
    private Path images = Path.of("");

    @Option(
        names = "--older-than",
        paramLabel = "TIME",
        converter = Seconds.class,
        description =
            "For how long the images of a job must be unchanged if no code of its command is"
                + " recorded, as after scancel; 7d by default.")
    private Duration age = DEFAULT_AGE;

    @Override
    int run(Session session) {
      List<Map<String, @Nullable Object>> values = new ArrayList<>();
      for (EndedJobs.Outcome each :
          new EndedJobs(session.machine(), new Scontrol(SCONTROL), images, age, session::note)
              .removeImages()) {
        Map<String, @Nullable Object> value = new LinkedHashMap<>();
        value.put("job", each.directory());
        value.put("removed", each.removed());
        value.put("reason", each.reason());
        values.add(value);
      }
      session.output().table(values, "job", "removed", "reason");
      return ExitCode.DONE.code();
    }
  }

  /** Accepts a number of seconds too, as Slurm's own options do. */
  static final class Seconds implements ITypeConverter<Duration> {

    @Override
    public Duration convert(String text) {
      return Converters.time(text.matches("\\d{1,9}") ? text + "s" : text);
    }
  }
}
