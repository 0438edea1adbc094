package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The script bin/gpuprocess, with a jar of the classes under test. */
@SimulatedGpu
class ScriptTest {

  private static final Path SCRIPT =
      Path.of(System.getProperty("gpuprocess.root"), "bin", "gpuprocess");

  @TempDir private static Path shared;

  private static Path jar = Path.of("");

  @TempDir private Path directory;

  private final SimulatedDriver driver;
  private final Counter counter;

  ScriptTest(SimulatedDriver driver, Counter counter) {
    this.driver = driver;
    this.counter = counter;
  }

  /** Archives of classes hold for jars only, so the directories of classes become one. */
  @BeforeAll
  static void makeJar() throws IOException {
    List<Path> all =
        Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
            .map(Path::of)
            .toList();
    Manifest manifest = new Manifest();
    Attributes main = manifest.getMainAttributes();
    main.put(Attributes.Name.MANIFEST_VERSION, "1.0");
    main.put(Attributes.Name.MAIN_CLASS, Main.class.getName());
    main.put(
        Attributes.Name.CLASS_PATH,
        all.stream()
            .filter(Files::isRegularFile)
            .map(each -> each.toUri().toString())
            .collect(Collectors.joining(" ")));
    jar = shared.resolve("gpuprocess.jar");
    List<String> added = new ArrayList<>(List.of("META-INF/MANIFEST.MF"));
    try (OutputStream file = Files.newOutputStream(jar);
        JarOutputStream out = new JarOutputStream(file, manifest)) {
      out.setLevel(0);
      for (Path classes : all.stream().filter(Files::isDirectory).toList()) {
        try (Stream<Path> files = Files.walk(classes)) {
          for (Path each : files.filter(Files::isRegularFile).toList()) {
            String name = classes.relativize(each).toString();
            if (!added.contains(name)) {
              added.add(name);
              out.putNextEntry(new JarEntry(name));
              Files.copy(each, out);
            }
          }
        }
      }
    }
  }

  private record Outcome(int code, String out, String err) {}

  private Outcome run(Path script, String home, Object... args) throws Exception {
    Path out = directory.resolve("out");
    int code = run(out, script, home, args);
    return new Outcome(code, Files.readString(out), Files.readString(directory.resolve("err")));
  }

  private int run(Path out, Path script, String home, Object... args) throws Exception {
    Path err = directory.resolve("err");
    List<String> command = new ArrayList<>(List.of(script.toString()));
    Stream.of(args).map(Object::toString).forEach(command::add);
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectOutput(out.toFile()).redirectError(err.toFile());
    builder.environment().keySet().removeIf(name -> !name.equals("PATH"));
    builder.environment().put("JAVA_HOME", System.getProperty("java.home"));
    builder.environment().put("GPUPROCESS_JAR", jar.toString());
    if (home.isEmpty()) {
      builder.environment().compute("PATH", (name, path) -> directory.resolve("bin") + ":" + path);
    } else {
      builder.environment().put("GPUPROCESS_HOME", home);
    }
    builder.environment().put("GPUPROCESS_DRIVER_DIR", driver.directory().toString());
    builder.environment().put("GPUPROCESS_STATE_DIR", driver.stateDirectory().toString());
    Process process = builder.start();
    assertTrue(process.waitFor(180, TimeUnit.SECONDS), command::toString);
    return process.exitValue();
  }

  private static List<String> files(Path directory) throws IOException {
    try (Stream<Path> files = Files.walk(directory)) {
      return files
          .filter(Files::isRegularFile)
          .map(each -> each.getFileName().toString())
          .sorted()
          .toList();
    }
  }

  @Test
  void keepsAnArchiveAtFirstUseAndUsesIt() throws Exception {
    // Without HOME, the password file has the directory.
    Path home = directory.resolve("home");
    Path getent = Files.createDirectory(directory.resolve("bin")).resolve("getent");
    Files.writeString(getent, "#!/bin/sh\necho root:x:0:0:root:%s:/bin/sh\n".formatted(home));
    Files.setPosixFilePermissions(getent, PosixFilePermissions.fromString("rwx------"));
    Outcome running = new Outcome(0, "running\n", "");
    assertEquals(running, run(SCRIPT, "", "state", counter.pid()));
    assertEquals(List.of("classes.jsa", "libjffi-1.2.so"), files(home));
    Path kept = onlyEntry(home.resolve(".cache/gpuprocess/start"));
    assertEquals(running, run(SCRIPT, "", "state", counter.pid()));
    assertEquals(List.of("classes.jsa", "libjffi-1.2.so"), files(home));
    // A call must not fail because its archive cannot be used.
    Files.writeString(kept.resolve("classes.jsa"), "no archive");
    assertEquals(running, run(SCRIPT, "", "state", counter.pid()));
  }

  /** A library there would be code that another user chose. */
  @Test
  void usesNothingThatAnotherUserCouldChange() throws Exception {
    Outcome running = new Outcome(0, "running\n", "");
    Path home = directory.resolve("home");
    assertEquals(running, run(SCRIPT, home.toString(), "state", counter.pid()));
    Path kept = onlyEntry(home.resolve("start"));
    Path open = Files.createDirectory(directory.resolve("open"));
    Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxrwxrwx"));
    Files.move(kept, directory.resolve("earlier"));
    Files.writeString(open.resolve("classes.jsa"), "no archive");
    Files.writeString(open.resolve("libjffi-1.2.so"), "no library");
    Files.createSymbolicLink(kept, open);
    assertEquals(running, run(SCRIPT, home.toString(), "state", counter.pid()));

    Path below = open.resolve("home");
    assertEquals(running, run(SCRIPT, below.toString(), "state", counter.pid()));
    assertEquals(List.of(), files(below));
  }

  /** As with sudo that keeps HOME: a link of the user could lead to any directory of root's. */
  @Test
  @RequiresRoot("gives a directory to another user")
  void removesNothingWhereALinkOfAnotherUserLeads() throws Exception {
    FileTime old = FileTime.from(Instant.now().minus(Duration.ofDays(60)));
    Path ours = Files.createDirectory(directory.resolve("ours"));
    Path file = Files.writeString(ours.resolve("file"), "of root's");
    Path key = Files.createDirectory(ours.resolve("1-2-3-4-5-6"));
    for (Path each : List.of(file, key)) {
      Files.setLastModifiedTime(each, old);
    }
    Path home = Files.createDirectory(directory.resolve("tenant"));
    Files.createSymbolicLink(home.resolve("start"), ours);
    for (Path each : List.of(home.resolve("start"), home)) {
      Files.setAttribute(each, "unix:uid", 30001, LinkOption.NOFOLLOW_LINKS);
    }
    Outcome running = new Outcome(0, "running\n", "");
    assertEquals(running, run(SCRIPT, home.toString(), "state", counter.pid()));
    assertEquals(List.of("file"), files(ours));
    assertTrue(Files.isDirectory(key));
    // In a directory of our own, only what the script has made goes.
    Path own = Files.createDirectory(directory.resolve("own"));
    Files.move(ours, own.resolve("start"));
    assertEquals(running, run(SCRIPT, own.toString(), "state", counter.pid()));
    assertTrue(Files.exists(own.resolve("start/file")));
    assertFalse(Files.exists(own.resolve("start/1-2-3-4-5-6")));
  }

  @Test
  void failsIfItsResultCannotBeWritten() throws Exception {
    Path full = Path.of("/dev/full");
    String home = directory.resolve("home").toString();
    assertEquals(1, run(full, SCRIPT, home, "ps", "--json"));
    String error = Files.readString(directory.resolve("err"));
    assertTrue(error.contains("could not be written"), error);
    assertEquals(7, run(full, SCRIPT, home, "launch", "--", "sh", "-c", "echo a; exit 7"));
  }

  private static Path onlyEntry(Path directory) throws IOException {
    try (Stream<Path> entries = Files.list(directory)) {
      return entries.findFirst().orElseThrow();
    }
  }

  @Test
  void worksWithoutACacheAndByLinksOfOtherNames(Workload idle) throws Exception {
    String nowhere = "/proc/no/such/directory";
    assertEquals(new Outcome(0, "running\n", ""), run(SCRIPT, nowhere, "state", counter.pid()));
    assertEquals(5, run(SCRIPT, nowhere, "state", idle.pid()).code());
    Path link = Files.createSymbolicLink(directory.resolve("cuda-checkpoint"), SCRIPT);
    assertEquals(
        new Outcome(0, "running\n", ""), run(link, nowhere, "--get-state", "--pid", counter.pid()));
    link = Files.createSymbolicLink(directory.resolve("cu_check"), SCRIPT);
    assertEquals(
        new Outcome(0, "state: CU_PROCESS_STATE_RUNNING\n", ""),
        run(link, nowhere, "state", counter.pid()));
    link = Files.createSymbolicLink(directory.resolve("cr_client"), SCRIPT);
    assertEquals(new Outcome(0, "", ""), run(link, nowhere, "-i", "-p", counter.pid()));
  }
}
