package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuProcess;
import java.util.OptionalLong;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.TypeConversionException;

/** A command on one process. */
abstract class ProcessCommand extends CliCommand {

  @Parameters(
      index = "0",
      paramLabel = "PID",
      converter = Pid.class,
      description = "The process; its descendants are included.")
  long pid;

  /** Refuses what the kernel gives to no process. */
  static final class Pid implements ITypeConverter<Long> {

    @Override
    public Long convert(String text) {
      if (!text.matches("[1-9]\\d{0,9}")) {
        throw new TypeConversionException("'" + text + "' is not a pid");
      }
      return Long.parseLong(text);
    }
  }

  @Override
  OptionalLong subject() {
    return OptionalLong.of(pid);
  }

  /** The option of commands that take a process off its GPU or dump it. */
  static final class FirstProcess {

    @Option(
        names = "--all-processes",
        description = "Allow PID 1, from which all processes descend.")
    private boolean isAllowed;

    /** Refuses pid 1, which is a typo for another pid rather than meant. */
    void requireMeant(long pid) {
      if (pid == 1 && !isAllowed) {
        throw new CommandException(
            ExitCode.USAGE,
            "OPTION",
            "all processes descend from process 1: name the process itself, or add --all-processes");
      }
    }
  }

  /** Returns the refusal of a command that is not legal in the state of the process. */
  static CommandException wrongState(GpuProcess process, String instead) {
    return new CommandException(
        ExitCode.FIX_AND_RETRY,
        "WRONG_STATE",
        "process %s is %s: %s".formatted(process.pid(), Words.state(process), instead));
  }
}
