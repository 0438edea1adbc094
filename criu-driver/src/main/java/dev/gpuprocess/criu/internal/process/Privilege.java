package dev.gpuprocess.criu.internal.process;

import java.util.ArrayList;
import java.util.List;

/** Advice for an operator on how a user other than root can run CRIU as root. */
public final class Privilege {

  /** The environment variable that names a command. */
  public static final String VARIABLE = "GPUPROCESS_CRIU_COMMAND";

  /** The advice if CRIU does not run as root. */
  public static final String CURE =
      "let sudo run CRIU as root for this user (see docs/criu-as-root.md), or name another command that does in "
          + VARIABLE;

  private Privilege() {}

  /**
   * Returns the advice for a command that did not start CRIU.
   *
   * @param command the command
   * @param output its output
   */
  public static String cure(CriuCommand command, String output) {
    String program = command.words().get(command.words().size() - 1);
    if (output.contains("must have a tty")) {
      return "put 'Defaults!%s !requiretty' into sudoers".formatted(program);
    }
    if (output.contains("Socket operation on non-socket")) {
      return "it replaces standard input, which is our socket: do not log the input of CRIU (NOLOG_INPUT in sudoers)";
    }
    if (command.program().endsWith("sudo")) {
      return "as root, put '%s' into a file in /etc/sudoers.d with visudo (a user who may run this is in effect root)"
          .formatted(sudoersLine(command, program));
    }
    return "try it in a shell as this user";
  }

  /** Returns the command line that sudo has to allow. */
  private static String sudoersLine(CriuCommand command, String program) {
    List<String> all = command.arguments();
    List<String> criu = new ArrayList<>(all.subList(command.words().size() - 1, all.size()));
    String path = program.startsWith("/") ? program : "/usr/sbin/" + program;
    return "%s ALL=(root) NOPASSWD: %s %s"
        .formatted(System.getProperty("user.name"), path, String.join(" ", criu));
  }
}
