package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.ProgramRun.Ended;
import dev.gpuprocess.internal.linux.DurableFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Finds the test programs of a directory: executable files without a suffix. */
final class Programs {

  /** Evaluates the descriptions, which are Python expressions; one of them calls functions. */
  private static final String EVALUATE =
      """
      import os, sys
      for name in sys.argv[1:]:
        with open(name) as file:
          for key, value in eval(file.read() or '{}').items():
            words = value if isinstance(value, str) else ' '.join(value)
            print(name[:-len('.desc')], key, ' '.join(words.split()), sep='\\t')
      """;

  private Programs() {}

  /**
   * Finds the programs, with their descriptions and the commands that start them.
   *
   * @param names the names of the programs; empty for all
   */
  static List<Program> of(Stage stage, List<String> names) throws IOException, FailedException {
    List<String> found =
        DurableFiles.list(stage.programs()).stream()
            .filter(file -> Files.isRegularFile(file) && Files.isExecutable(file))
            .map(file -> file.getFileName().toString())
            .filter(name -> !name.contains("."))
            .filter(name -> names.isEmpty() || names.contains(name))
            .toList();
    Map<String, Map<String, String>> descriptions = descriptions(stage, found);
    Map<String, List<String>> commands = commands(stage, found);
    List<Program> programs = new ArrayList<>();
    for (String name : found) {
      // The makefile has no command for scripts that are not tests.
      List<String> command = commands.get(name);
      if (command != null) {
        programs.add(new Program(name, command, descriptions.getOrDefault(name, Map.of())));
      }
    }
    return List.copyOf(programs);
  }

  private static Map<String, Map<String, String>> descriptions(Stage stage, List<String> names)
      throws FailedException {
    List<String> words = new ArrayList<>(List.of("python3", "-c", EVALUATE));
    for (String name : names) {
      if (Files.exists(stage.programs().resolve(name + ".desc"))) {
        words.add(name + ".desc");
      }
    }
    Ended ended = ProgramRun.of(words).in(stage.programs()).run();
    if (ended.exit() != 0) {
      throw new FailedException("the .desc files cannot be read: " + ended.lastLine());
    }
    Map<String, Map<String, String>> all = new HashMap<>();
    ended
        .printed()
        .lines()
        .map(line -> line.split("\t", -1))
        .forEach(f -> all.computeIfAbsent(f[0], name -> new HashMap<>()).put(f[1], f[2]));
    return all;
  }

  /** Reads the commands from a dry run of the makefile. */
  private static Map<String, List<String>> commands(Stage stage, List<String> names) {
    List<String> words =
        new ArrayList<>(List.of("make", "--dry-run", "--keep-going", "--no-print-directory"));
    names.forEach(name -> words.add(name + ".pid"));
    Map<String, List<String>> commands = new HashMap<>();
    ProgramRun.of(words)
        .in(stage.programs())
        .run()
        .printed()
        .lines()
        .filter(line -> line.startsWith("./"))
        .map(line -> List.of(line.strip().split("\\s+")))
        .forEach(command -> commands.put(command.get(0).substring("./".length()), command));
    return commands;
  }
}
