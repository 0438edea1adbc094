package dev.gpuprocess.examples.cli;

import java.util.Locale;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The form in which the command line takes an option that a message of the library names. The
 * library names it as the Java call that sets it.
 */
final class OptionForm {

  private static final Pattern PLAIN_WORD = Pattern.compile("[A-Za-z0-9_./:=+,@%-]+");

  /** Java calls without arguments that matter, and their forms here. */
  private static final Map<String, String> WORDS =
      Map.of(
          "DumpOptions.releaseInheritedGpu(true)", "--release-inherited-gpu",
          "LaunchOptions.dropInheritedGpu(true)", "--drop-inherited-gpu",
          "RestoreOptions.skipMachineCheck(true)", "--skip-machine-check",
          "ResumeOptions.waitForMemory", "--wait-for-memory",
          "ResumeOptions.gpus", "--gpus",
          "GpuCheckpoints.Builder.allowPolls(true)", "--allow-polls",
          "GpuCheckpoints.Builder.hostMemory", "--save-files",
          "GpuProcess.launch", "gpuprocess launch",
          "GpuCheckpoints.recover()", "gpuprocess recover");

  private static final Pattern CRIU = Pattern.compile("CriuOptions\\.set\\(\"([^\"]*)\"\\)");

  private static final Pattern LOSS =
      Pattern.compile("DumpOptions\\.allowLoss\\(Attribute\\.([A-Z_]+)\\)");

  private OptionForm() {}

  /** Returns a message with the options of the command line. */
  static String of(String message) {
    String text = replaced(message, CRIU, value -> "--criu " + quoted(value));
    text =
        replaced(
            text,
            LOSS,
            value -> "--allow-loss " + value.toLowerCase(Locale.ROOT).replace('_', '-'));
    for (Map.Entry<String, String> word : WORDS.entrySet()) {
      text = text.replace(word.getKey(), word.getValue());
    }
    return text;
  }

  private static String replaced(String text, Pattern call, UnaryOperator<String> form) {
    return call.matcher(text)
        .replaceAll(found -> Matcher.quoteReplacement(form.apply(found.group(1))));
  }

  /** Returns a word as a shell takes it. */
  static String quoted(String word) {
    return PLAIN_WORD.matcher(word).matches() ? word : "'" + word.replace("'", "'\\''") + "'";
  }
}
