package dev.gpuprocess.examples.cli;

import dev.gpuprocess.options.CriuSwitch;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;

/** Prints the table of CRIU's options. */
@Command(
    name = "criu-options",
    description = "List what --criu NAME[=VALUE] can set, and which commands use it.")
final class CriuOptionsCommand extends CliCommand {

  @Override
  int run(Session session) {
    session
        .output()
        .table(
            CriuSwitch.all().stream().map(CriuOptionsCommand::value).toList(),
            "option",
            "usedBy",
            "default",
            "help");
    return ExitCode.DONE.code();
  }

  private static Map<String, @Nullable Object> value(CriuSwitch<?> each) {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("option", each.form().isEmpty() ? each.name() : each.name() + "=" + each.form());
    value.put("usedBy", each.use().name().toLowerCase(Locale.ROOT));
    value.put("default", each.defaultText());
    value.put("help", each.help());
    return value;
  }
}
