package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The manual pages and the completion. */
@SimulatedGpu
class ManPagesTest {

  @TempDir private Path directory;

  private String output(String... command) throws Exception {
    Path out = directory.resolve("output");
    Process process =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(out.toFile()).start();
    assertEquals(0, process.waitFor(), () -> text(out));
    return text(out);
  }

  private static String text(Path file) {
    try {
      return Files.readString(file, StandardCharsets.UTF_8);
    } catch (IOException e) {
      return e.toString();
    }
  }

  private static boolean isHere(String program) {
    return Stream.of(System.getenv("PATH").split(":"))
        .anyMatch(each -> Files.isExecutable(Path.of(each, program)));
  }

  @Test
  void eachCommandHasAPage(GpuCheckpoints machine) throws Exception {
    Path pages = directory.resolve("man1");
    Call call = Call.of(machine, "man", pages);
    assertEquals(0, call.code(), call::toString);
    for (String command : CommandLineTool.COMMANDS) {
      String page = Files.readString(pages.resolve("gpuprocess-" + command + ".1"));
      assertTrue(page.contains("\n.SH DESCRIPTION\n.PP\n"), page);
    }
    String suspend = Files.readString(pages.resolve("gpuprocess-suspend.1"));
    assertTrue(suspend.contains("\\fB\\-\\-lock\\-timeout\\fR \\fITIME\\fR"), suspend);
    assertTrue(Files.exists(pages.resolve("gpuprocess-images-describe.1")));
    String all = Files.readString(pages.resolve("gpuprocess.1"));
    assertTrue(all.contains(".SH EXIT STATUS\n.TP\n0\ndone\n"), all);
    assertTrue(all.contains("\\fBgpuprocess\\-suspend\\fR(1)"), all);
  }

  @Test
  void groffReadsThePagesWithoutAWarning() throws Exception {
    assumeTrue(isHere("groff"), "groff is not here");
    Map<String, String> pages = ManPages.of(CommandLineTool.commandLine().getCommandSpec());
    for (Map.Entry<String, String> page : pages.entrySet()) {
      Path file = Files.writeString(directory.resolve(page.getKey()), page.getValue());
      assertEquals("", output("groff", "-man", "-ww", "-z", "-Tascii", file.toString()));
    }
  }

  @Test
  void bashCompletesCommandsAndOptions(GpuCheckpoints machine) throws Exception {
    Path script = Files.writeString(directory.resolve("it"), Call.of(machine, "completion").out());
    output("bash", "-n", script.toString());
    assertEquals(
        List.of("suspend"),
        completed(script, "gpuprocess", "sus").stream().filter(each -> !each.isEmpty()).toList());
    assertTrue(completed(script, "gpuprocess", "suspend", "--lock").contains("--lock-timeout"));
    assertTrue(completed(script, "gpuprocess", "images", "des").contains("describe"));
  }

  /** Calls the completion as bash does when the last word is completed. */
  private List<String> completed(Path script, String... words) throws Exception {
    String call =
        """
        source "$0"
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        COMP_LINE="$*"
        COMP_POINT=${#COMP_LINE}
        COMP_TYPE=9
        function=$(complete -p gpuprocess | sed 's/.*-F *\\([^ ]*\\).*/\\1/')
        "$function" gpuprocess "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\\n' "${COMPREPLY[@]}"
        """;
    Stream<String> command = Stream.of("bash", "-c", call, script.toString());
    return output(Stream.concat(command, Stream.of(words)).toArray(String[]::new))
        .lines()
        .map(String::strip)
        .toList();
  }

  @Test
  void zshCompletes(GpuCheckpoints machine) throws Exception {
    assumeTrue(isHere("zsh"), "zsh is not here");
    Path script = Files.writeString(directory.resolve("it"), Call.of(machine, "completion").out());
    String defined =
        output(
            "zsh",
            "-f",
            "-c",
            "autoload -U +X compinit && compinit -D; source $0; print ${_comps[gpuprocess]}",
            script.toString());
    assertTrue(defined.contains("gpuprocess"), defined);
  }
}
