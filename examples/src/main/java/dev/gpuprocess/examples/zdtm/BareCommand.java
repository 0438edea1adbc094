package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.ProgramRun.Ended;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The {@code criu} command, as CRIU's own test suite uses it. A program that fails with it too is
 * not a failure of the library.
 *
 * @param criu the program
 */
record BareCommand(String criu) implements Way {

  private static final String NETWORK_LOCK = "--network-lock";

  @Override
  public void dump(List<String> options, ProcessIdentity process, Path images, Path work)
      throws FailedException {
    List<String> arguments =
        new ArrayList<>(List.of("dump", "-t", Integer.toString(process.pid())));
    arguments.addAll(options);
    if (!options.contains(NETWORK_LOCK) && !installed("iptables-restore")) {
      // As the library does; the default of CRIU is iptables.
      arguments.addAll(List.of(NETWORK_LOCK, "nftables"));
    }
    run(arguments, images, work);
  }

  private static boolean installed(String program) {
    return Arrays.stream(System.getenv("PATH").split(":"))
        .anyMatch(directory -> Files.isExecutable(Path.of(directory, program)));
  }

  @Override
  public int restore(List<String> options, int pid, Path images, Path work) throws FailedException {
    Path restored = work.resolve("restored.pid");
    List<String> arguments =
        new ArrayList<>(List.of("restore", "-d", "--pidfile", restored.toString()));
    arguments.addAll(options);
    run(arguments, images, work);
    try {
      return Integer.parseInt(Files.readString(restored).strip());
    } catch (IOException e) {
      throw new FailedException("criu restore wrote no pid: " + e.getMessage(), e);
    }
  }

  /** Returns whether this kernel and this CRIU have a feature of {@code criu check}. */
  boolean has(String feature) {
    return call(List.of("check", "--no-default-config", "--feature", feature)).exit() == 0;
  }

  private void run(List<String> arguments, Path images, Path work) throws FailedException {
    List<String> all = new ArrayList<>(arguments);
    all.addAll(List.of("--no-default-config", "-v4", "-o", "criu.log"));
    all.addAll(List.of("-D", images.toString(), "-W", work.toString()));
    int exit = call(all).exit();
    if (exit != 0) {
      String error = error(work);
      String why = "criu " + arguments.get(0) + " exited with " + exit + ": " + error;
      throw error.matches(".*Can't fork for \\d+: File exists.*")
          ? new PidTakenException(why, null)
          : new FailedException(why);
    }
  }

  /** Returns the last error of the log; the first one is often harmless. */
  private static String error(Path work) throws FailedException {
    try {
      return Files.readAllLines(work.resolve("criu.log"), StandardCharsets.ISO_8859_1).stream()
          .filter(line -> line.contains("Error ("))
          .filter(line -> !line.contains("ing FAILED") && !line.contains("failed with -1"))
          .filter(line -> !line.contains("ptables"))
          .map(line -> line.replaceFirst("^.*?Error ", ""))
          .reduce((first, second) -> second)
          .orElse("no error in the log");
    } catch (IOException e) {
      throw new FailedException("the log of criu cannot be read: " + e.getMessage(), e);
    }
  }

  private Ended call(List<String> arguments) {
    List<String> command = new ArrayList<>(List.of(criu));
    command.addAll(arguments);
    return ProgramRun.of(command).in(Path.of("/")).run();
  }
}
