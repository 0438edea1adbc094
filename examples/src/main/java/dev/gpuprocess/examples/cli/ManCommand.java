package dev.gpuprocess.examples.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Writes the manual pages. */
@Command(
    name = "man",
    description = {
      "Write the manual pages, one for each command, to a directory.",
      "To read them: gpuprocess man DIR/man1, then man -M DIR gpuprocess-suspend"
    })
final class ManCommand extends CliCommand {

  @Parameters(paramLabel = "DIR", description = "The directory; made if it does not exist.")
  private Path directory = Path.of("");

  @Override
  int run(Session session) {
    List<Map<String, @Nullable Object>> written = new ArrayList<>();
    try {
      Files.createDirectories(directory);
      for (Map.Entry<String, String> page :
          ManPages.of(CommandLineTool.commandLine().getCommandSpec()).entrySet()) {
        Path file = Files.writeString(directory.resolve(page.getKey() + ".1"), page.getValue());
        Map<String, @Nullable Object> value = new LinkedHashMap<>();
        value.put("page", file);
        written.add(value);
      }
    } catch (IOException e) {
      throw new CommandException(
          ExitCode.FIX_AND_RETRY, "FILE", "the manual pages cannot be written: " + e);
    }
    session.output().table(written, "page");
    return ExitCode.DONE.code();
  }
}
