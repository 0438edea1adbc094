package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.options.Cancellation;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.HelpCommand;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.UnmatchedArgumentException;

/** The tool with its commands. A new command is a class and a line in {@link #command}. */
public final class CommandLineTool {

  static final String NAME = "gpuprocess";

  /** The commands, in the order of the help. */
  static final List<String> COMMANDS =
      List.of(
          "ps",
          "state",
          "suspend",
          "resume",
          "lock",
          "checkpoint",
          "restore",
          "unlock",
          "toggle",
          "dump",
          "restore-image",
          "snapshot",
          "images",
          "launch",
          "agent",
          "slurm",
          "recover",
          "doctor",
          "slot",
          "criu-options",
          "completion",
          "man");

  /** The commands that need no argument but a pid. */
  private static final List<String> PLAIN =
      List.of(
          "ps", "state", "suspend", "resume", "lock", "checkpoint", "restore", "unlock", "toggle");

  /** Java replaces bytes of an argument that the locale cannot decode by this character. */
  private static final char REPLACEMENT = '\ufffd';

  private final Supplier<GpuCheckpoints> machine;
  private final Cancellation cancellation;
  private final PrintStream out;
  private final PrintStream err;

  /** The root command: help and version. */
  @Command(
      name = NAME,
      mixinStandardHelpOptions = true,
      versionProvider = Version.class,
      description = "Takes running CUDA processes off their GPUs, to disk, and back.",
      synopsisSubcommandLabel = "COMMAND",
      exitCodeListHeading = "%nExit codes:%n",
      exitCodeList = {
        "0:done",
        "1:an unexpected failure, or doctor found a problem",
        "2:invalid arguments; nothing was done",
        "3:may succeed later: a timeout, a cancellation, another controller",
        "4:mend the cause and retry: a state, an option, an image, a directory",
        "5:the process does not exist or cannot be checkpointed",
        "6:the machine lacks a driver, a CRIU, or what an image needs",
        "130, 143:cancelled by SIGINT or SIGTERM"
      })
  private static final class Root {}

  /** Reads the version from the manifest of the jar. */
  static final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() {
      String version = CommandLineTool.class.getPackage().getImplementationVersion();
      return new String[] {NAME + " " + (version == null ? "(not from a jar)" : version)};
    }
  }

  /**
   * Creates the tool.
   *
   * @param machine the drivers and settings, read when a command needs them
   * @param cancellation cancels the command under way
   * @param out for results
   * @param err for failures and progress
   */
  public CommandLineTool(
      Supplier<GpuCheckpoints> machine,
      Cancellation cancellation,
      PrintStream out,
      PrintStream err) {
    this.machine = machine;
    this.cancellation = cancellation;
    this.out = out;
    this.err = err;
  }

  /**
   * Runs one command.
   *
   * @param args the command and its arguments
   * @return the exit code
   */
  public int run(List<String> args) {
    for (String each : args) {
      if (each.indexOf(REPLACEMENT) >= 0) {
        err.println(
            "%s: '%s' contains U+FFFD, so Java cannot read it in this locale: set LC_ALL=C.UTF-8"
                .formatted(NAME, Output.printable(each)));
        return ExitCode.USAGE.code();
      }
    }
    CliCommand plain = plain(args);
    return plain == null ? parse(args) : run(plain);
  }

  private int run(CliCommand command) {
    return new Session(machine, cancellation, command, out, err).run();
  }

  /**
   * Returns the command of a call that has no more than a pid and {@code --json}, and null for any
   * other call. Such calls are most of those that scripts make, and picocli takes longer to read
   * the annotations than the command takes.
   */
  private static @Nullable CliCommand plain(List<String> args) {
    boolean json = !args.isEmpty() && args.get(args.size() - 1).equals("--json");
    int words = args.size() - (json ? 1 : 0);
    if (words < 1 || words > 2 || !PLAIN.contains(args.get(0))) {
      return null;
    }
    CliCommand command = (CliCommand) command(args.get(0));
    if (command instanceof ProcessCommand process) {
      if (words != 2 || !isPid(args.get(1))) {
        return null;
      }
      process.pid = Long.parseLong(args.get(1));
    } else if (words != 1) {
      return null;
    }
    command.json = json;
    return command;
  }

  private static boolean isPid(String word) {
    for (int i = 0; i < word.length(); i++) {
      if (word.charAt(i) < '0' || word.charAt(i) > '9') {
        return false;
      }
    }
    return !word.isEmpty() && word.length() < 10 && word.charAt(0) != '0';
  }

  private int parse(List<String> args) {
    CommandLine tool = commandLine(args.isEmpty() ? null : args.get(0));
    tool.setOut(new PrintWriter(out, true, StandardCharsets.UTF_8));
    tool.setErr(new PrintWriter(err, true, StandardCharsets.UTF_8));
    if (args.size() > 2 && args.get(0).equals("help")) {
      List<String> asked = new ArrayList<>(args.subList(1, args.size()));
      asked.add("--help");
      return parse(asked);
    }
    if (args.isEmpty()) {
      err.println("usage: gpuprocess COMMAND [ARGUMENT...]; gpuprocess help lists the commands");
      return ExitCode.USAGE.code();
    }
    tool.setParameterExceptionHandler(this::refuse);
    tool.setExecutionStrategy(this::execute);
    return tool.execute(args.toArray(String[]::new));
  }

  private int refuse(ParameterException failure, String[] args) {
    String message = String.valueOf(failure.getMessage());
    if (failure instanceof UnmatchedArgumentException unknown
        && failure.getCommandLine().getCommand() instanceof Root) {
      List<String> similar = unknown.getSuggestions();
      message =
          "'%s' is not a command%s"
              .formatted(
                  unknown.getUnmatched().get(0),
                  similar.isEmpty() ? "" : "; did you mean " + String.join(" or ", similar) + "?");
    }
    err.println(NAME + ": " + Output.printable(message));
    boolean isJson = List.of(args).contains("--json");
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("group", ExitCode.USAGE.name());
    value.put("exitCode", ExitCode.USAGE.code());
    value.put("reason", "OPTION");
    value.put("message", message);
    new Output(out, isJson).failure(value);
    String name = failure.getCommandLine().getCommandSpec().qualifiedName();
    err.println("usage: see " + name.replaceFirst(" ", " help "));
    return ExitCode.USAGE.code();
  }

  private int execute(CommandLine.ParseResult parsed) {
    Integer help = CommandLine.executeHelpRequest(parsed);
    if (help != null) {
      return help;
    }
    List<CommandLine> all = parsed.asCommandLineList();
    CommandLine last = all.get(all.size() - 1);
    if (last.getCommand() instanceof CliCommand command) {
      return run(command);
    }
    throw new ParameterException(
        last, "which command? one of: " + String.join(", ", last.getSubcommands().keySet()));
  }

  /** Returns the whole tool, for help and completion. */
  static CommandLine commandLine() {
    return commandLine(null);
  }

  /** Only the class of the named command is read: that takes a tenth of the time of all. */
  private static CommandLine commandLine(@Nullable String only) {
    CommandLine tool = new CommandLine(new Root());
    for (String name : only != null && COMMANDS.contains(only) ? List.of(only) : COMMANDS) {
      tool.addSubcommand(name, command(name));
    }
    tool.addSubcommand("help", new HelpCommand());
    Converters.register(tool);
    return tool;
  }

  private static Object command(String name) {
    return switch (name) {
      case "ps" -> new PsCommand();
      case "state" -> new StateCommand();
      case "lock" -> new Transitions.Lock();
      case "checkpoint" -> new Transitions.Checkpoint();
      case "restore" -> new Transitions.Restore();
      case "unlock" -> new Transitions.Unlock();
      case "toggle" -> new Transitions.Toggle();
      case "suspend" -> new Transitions.Suspend();
      case "resume" -> new Transitions.Resume();
      case "dump" -> new DumpCommand();
      case "restore-image" -> new RestoreImageCommand();
      case "snapshot" -> new SnapshotCommand();
      case "images" -> new ImagesCommand();
      case "launch" -> new LaunchCommand();
      case "agent" -> new AgentCommand();
      case "slurm" -> new SlurmCommand();
      case "recover" -> new RecoverCommand();
      case "doctor" -> new DoctorCommand();
      case "slot" -> new SlotCommand();
      case "criu-options" -> new CriuOptionsCommand();
      case "completion" -> new CompletionCommand();
      case "man" -> new ManCommand();
      default -> throw new IllegalArgumentException(name);
    };
  }
}
