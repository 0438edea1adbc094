package dev.gpuprocess.examples.cli;

import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.CriuSwitch;
import java.util.Iterator;
import java.util.List;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** The options of CRIU, for commands that dump or restore; the library has their table. */
final class CriuArguments {

  @Option(
      names = "--criu",
      paramLabel = "NAME[=VALUE]",
      converter = Setting.class,
      completionCandidates = Names.class,
      description =
          "An option of CRIU, such as tcp-close or ghost-limit=64M; more than one may be given."
              + " gpuprocess criu-options lists them.")
  private List<String> settings = List.of();

  /** Returns the options; the command is refused if they exclude each other. */
  CriuOptions options() {
    CriuOptions.Builder all = CriuOptions.builder();
    settings.forEach(all::set);
    try {
      return all.build();
    } catch (IllegalStateException e) {
      throw new CommandException(ExitCode.USAGE, "OPTION", String.valueOf(e.getMessage()));
    }
  }

  /** Refuses a setting that the table does not have. */
  static final class Setting implements ITypeConverter<String> {

    @Override
    public String convert(String text) {
      try {
        CriuOptions.Builder unused = CriuOptions.builder().set(text);
        return text;
      } catch (IllegalArgumentException e) {
        throw new TypeConversionException(e.getMessage());
      }
    }
  }

  /** The names, for the completion of a shell. */
  static final class Names implements Iterable<String> {

    @Override
    public Iterator<String> iterator() {
      return CriuSwitch.all().stream()
          .map(each -> each.form().isEmpty() ? each.name() : each.name() + "=")
          .iterator();
    }
  }
}
