package dev.gpuprocess.examples.cli;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import picocli.CommandLine;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.PositionalParamSpec;

/** The manual pages of a command and its subcommands, in the macros of man(7). */
final class ManPages {

  private static final String EXIT_CODES =
      "The exit codes are the same for all commands; gpuprocess(1) has them.";

  private final Map<String, String> pages = new TreeMap<>();

  private ManPages() {}

  /** Returns the source of each page of section 1 by its name, such as gpuprocess-slot-run. */
  static Map<String, String> of(CommandSpec root) {
    ManPages made = new ManPages();
    made.add(root);
    return made.pages;
  }

  private void add(CommandSpec command) {
    pages.put(name(command), page(command));
    subcommands(command).forEach(this::add);
  }

  private static String name(CommandSpec command) {
    return command.qualifiedName("-");
  }

  private static List<CommandSpec> subcommands(CommandSpec command) {
    return command.subcommands().values().stream()
        .map(CommandLine::getCommandSpec)
        .filter(each -> !each.helpCommand())
        .distinct()
        .toList();
  }

  private static String page(CommandSpec command) {
    List<String> lines = new ArrayList<>();
    List<String> description = Arrays.asList(command.usageMessage().description());
    lines.add(".TH " + name(command).toUpperCase(Locale.ROOT) + " 1");
    lines.add(".SH NAME");
    lines.add(text(name(command)) + " \\- " + text(summary(description)));
    lines.add(".SH SYNOPSIS");
    lines.add(synopsis(command));
    lines.add(".SH DESCRIPTION");
    for (String paragraph : description) {
      lines.add(".PP");
      lines.add(text(paragraph));
    }
    arguments(lines, command);
    commands(lines, command);
    exitCodes(lines, command);
    seeAlso(lines, command);
    return String.join("\n", lines) + "\n";
  }

  /** One line without a full stop, as mandb indexes it. */
  private static String summary(List<String> description) {
    String first = description.isEmpty() ? "" : description.get(0);
    return first.endsWith(".") ? first.substring(0, first.length() - 1) : first;
  }

  private static String synopsis(CommandSpec command) {
    StringBuilder line = new StringBuilder(".B " + text(command.qualifiedName()));
    if (command.options().stream().anyMatch(option -> !option.hidden())) {
      line.append("\n[\\fIOPTION\\fR]...");
    }
    for (PositionalParamSpec each : command.positionalParameters()) {
      String label = "\\fI" + text(each.paramLabel()) + "\\fR" + (each.isMultiValue() ? "..." : "");
      line.append('\n').append(each.required() ? label : "[" + label + "]");
    }
    if (!subcommands(command).isEmpty()) {
      line.append("\n\\fICOMMAND\\fR");
    }
    return line.toString();
  }

  private static void arguments(List<String> lines, CommandSpec command) {
    List<ArgSpec> all = new ArrayList<>(command.positionalParameters());
    all.addAll(command.options());
    all.removeIf(ArgSpec::hidden);
    if (all.isEmpty()) {
      return;
    }
    lines.add(".SH OPTIONS");
    for (ArgSpec each : all) {
      lines.add(".TP");
      lines.add(heading(each));
      for (String line : each.description()) {
        lines.add(text(line.replace("${DEFAULT-VALUE}", String.valueOf(each.defaultValue()))));
      }
    }
  }

  private static String heading(ArgSpec argument) {
    String label = "\\fI" + text(argument.paramLabel()) + "\\fR";
    if (!(argument instanceof OptionSpec option)) {
      return label;
    }
    String names =
        Arrays.stream(option.names())
            .map(each -> "\\fB" + text(each) + "\\fR")
            .collect(Collectors.joining(", "));
    return option.arity().max() == 0 ? names : names + " " + label;
  }

  private static void commands(List<String> lines, CommandSpec command) {
    if (subcommands(command).isEmpty()) {
      return;
    }
    lines.add(".SH COMMANDS");
    for (CommandSpec each : subcommands(command)) {
      lines.add(".TP");
      lines.add("\\fB" + text(name(each)) + "\\fR(1)");
      lines.add(text(String.join(" ", each.usageMessage().description())));
    }
  }

  private static void exitCodes(List<String> lines, CommandSpec command) {
    lines.add(".SH EXIT STATUS");
    if (command.parent() != null) {
      lines.add(text(EXIT_CODES));
      return;
    }
    command
        .usageMessage()
        .exitCodeList()
        .forEach(
            (code, meaning) -> {
              lines.add(".TP");
              lines.add(text(code.strip()));
              lines.add(text(meaning));
            });
  }

  private static void seeAlso(List<String> lines, CommandSpec command) {
    if (command.parent() != null) {
      lines.add(".SH SEE ALSO");
      lines.add("\\fB" + text(name(command.parent())) + "\\fR(1)");
    }
  }

  /** Escapes what troff would act on, and picocli's %n and %%. */
  private static String text(String text) {
    String escaped =
        text.replace("%n", " ")
            .replace("%%", "%")
            .replace("\\", "\\e")
            .replace("-", "\\-")
            .replace("\n", " ");
    return escaped.startsWith(".") || escaped.startsWith("'") ? "\\&" + escaped : escaped;
  }
}
