package dev.gpuprocess.examples.demo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.IOException;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.lang.reflect.Modifier;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The JShell script runs as {@code bin/jshell} runs it. */
@Tag("jdk")
class JShellTest {

  private static final Path SCRIPTS =
      Path.of(System.getProperty("gpuprocess.root"), "examples", "src", "main", "jshell");

  private static final String IMPORT = "import ";

  /** The JVM of JShell may log that it made a directory for its preferences. */
  private static final Pattern EXPECTED =
      Pattern.compile("Step\\[.*|main job: 101 -> 102|.* java\\.util\\.prefs\\..*|INFO: .*");

  /** What JShell imports by default. */
  private static final List<String> JSHELL =
      List.of(
          "java.io",
          "java.math",
          "java.net",
          "java.nio.file",
          "java.util",
          "java.util.concurrent",
          "java.util.function",
          "java.util.prefs",
          "java.util.regex",
          "java.util.stream");

  @TempDir Path directory;

  private record Outcome(int exit, String output) {

    /** Returns the lines that the script does not print if each of its lines succeeds. */
    List<String> unexpected() {
      return output.lines().filter(line -> !EXPECTED.matcher(line).matches()).toList();
    }
  }

  private Outcome run(Path startup, Path script) throws IOException, InterruptedException {
    Path jshell = Path.of(System.getProperty("java.home"), "bin", "jshell");
    assumeTrue(Files.exists(jshell), "this Java has no jshell");
    Path output = directory.resolve("output");
    ProcessBuilder builder =
        new ProcessBuilder(
                jshell.toString(),
                "-R--enable-native-access=ALL-UNNAMED",
                "--class-path",
                System.getProperty("java.class.path"),
                "--startup",
                "DEFAULT",
                "--startup",
                startup.toString(),
                script.toString())
            .redirectErrorStream(true)
            .redirectOutput(output.toFile());
    // The messages of JShell are in the language of its user.
    builder.environment().put("LC_ALL", "C.UTF-8");
    Process process = builder.start();
    // JShell would wait for input after an error in /exit.
    process.getOutputStream().close();
    try {
      return new Outcome(process.waitFor(), Files.readString(output, StandardCharsets.UTF_8));
    } finally {
      process.destroyForcibly();
    }
  }

  @Test
  @Timeout(value = 3, unit = TimeUnit.MINUTES)
  @RequiresCriu
  void runsTheMainJob() throws IOException, InterruptedException {
    Outcome outcome = run(SCRIPTS.resolve("startup.jsh"), SCRIPTS.resolve("main-job.jsh"));
    assertEquals(List.of(), outcome.unexpected(), outcome.output());
    assertEquals(0, outcome.exit(), outcome.output());
    assertTrue(outcome.output().contains("main job: 101 -> 102"), outcome.output());
    for (String step : List.of("lock", "checkpoint", "dump", "restore", "unlock")) {
      assertTrue(outcome.output().contains(step), () -> step + " is not in " + outcome.output());
    }
  }

  /** JShell continues after an error, as after the move of a package, and must not exit with 0. */
  @Test
  @Timeout(value = 3, unit = TimeUnit.MINUTES)
  void failsWithoutAnImport() throws IOException, InterruptedException {
    Path startup = directory.resolve("startup.jsh");
    List<String> lines = Files.readAllLines(SCRIPTS.resolve("startup.jsh"));
    Files.write(
        startup, lines.stream().filter(line -> !line.contains("gpuprocess.fixtures")).toList());
    Outcome outcome = run(startup, SCRIPTS.resolve("main-job.jsh"));
    assertEquals(1, outcome.exit(), outcome.output());
    assertTrue(outcome.unexpected().contains("Error:"), outcome.output());
  }

  @Test
  void importsEveryExportedPackage() throws IOException {
    Set<String> exported = new TreeSet<>();
    for (Class<?> one : List.of(GpuProcess.class, RpcCriuDriver.class, SimulatedDriver.class)) {
      exported.addAll(exports(one));
    }
    Set<String> imported =
        Files.readAllLines(SCRIPTS.resolve("startup.jsh")).stream()
            .filter(line -> line.startsWith(IMPORT + "dev.gpuprocess"))
            .map(line -> line.substring(IMPORT.length(), line.lastIndexOf('.')))
            .collect(Collectors.toCollection(TreeSet::new));
    assertEquals(exported, imported);
  }

  /** Otherwise a line with such a name is refused as ambiguous. */
  @Test
  void namesThatJShellImportsTooAreImportedOneByOne() throws IOException {
    List<String> lines = Files.readAllLines(SCRIPTS.resolve("startup.jsh"));
    List<String> others = new ArrayList<>(JSHELL);
    lines.stream()
        .filter(line -> line.matches("import java[.].*[.][*]"))
        .forEach(line -> others.add(line.substring(IMPORT.length(), line.length() - 2)));
    Set<String> missing = new TreeSet<>();
    Set<String> ambiguous = new TreeSet<>();
    for (String line : lines) {
      if (!line.matches("import dev[.]gpuprocess[.].*[.][*]")) {
        continue;
      }
      String own = line.substring(IMPORT.length(), line.length() - 2);
      for (String name : publicClasses(own)) {
        if (others.stream().anyMatch(other -> isPublic(other + "." + name))) {
          ambiguous.add(name);
          if (!lines.contains(IMPORT + own + "." + name)) {
            missing.add(own + "." + name);
          }
        }
      }
    }
    assertTrue(ambiguous.contains("Pattern"), ambiguous::toString);
    assertEquals(Set.of(), missing);
  }

  private static List<String> publicClasses(String name) throws IOException {
    List<String> classes = new ArrayList<>();
    for (String module : List.of("cuda-checkpoint-api", "criu-driver", "src-test-fixtures")) {
      Path sources = SCRIPTS.resolve("../../../..").resolve(module).resolve("src/main/java");
      Path directory = sources.resolve(name.replace('.', '/'));
      if (Files.isDirectory(directory)) {
        try (Stream<Path> files = Files.list(directory)) {
          files
              .map(file -> file.getFileName().toString().replace(".java", ""))
              .filter(each -> isPublic(name + "." + each))
              .forEach(classes::add);
        }
      }
    }
    return classes;
  }

  private static boolean isPublic(String name) {
    try {
      ClassLoader loader = JShellTest.class.getClassLoader();
      return Modifier.isPublic(Class.forName(name, false, loader).getModifiers());
    } catch (ClassNotFoundException none) {
      return false;
    }
  }

  /** Returns the packages that the module of a class exports without a target. */
  private static Set<String> exports(Class<?> one) {
    try {
      Path place = Path.of(one.getProtectionDomain().getCodeSource().getLocation().toURI());
      return ModuleFinder.of(place).findAll().stream()
          .flatMap(module -> module.descriptor().exports().stream())
          .filter(export -> !export.isQualified())
          .map(ModuleDescriptor.Exports::source)
          .collect(Collectors.toSet());
    } catch (URISyntaxException e) {
      throw new IllegalStateException(e);
    }
  }
}
