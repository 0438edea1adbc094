package dev.gpuprocess.contract;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.report.Diagnosis;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.jar.JarFile;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;

/**
 * The class path of the tests as jars, and an archive of their classes. A JVM maps the archive and
 * does not read and link each class (application class data sharing, which accepts no directories),
 * so one that works for a second takes a third less processor time. It is made once for each build
 * and each version of Java, in the module's {@code target}.
 */
final class ClassArchive {

  private static final String OURS = "dev/gpuprocess/";
  private static final String SUFFIX = ".class";

  private ClassArchive() {}

  /** Returns the class path and archive of this build, as options; they are made if necessary. */
  static List<String> options() {
    return Made.OPTIONS;
  }

  private static final class Made {
    static final List<String> OPTIONS = make(TestJvm.classPath().split(File.pathSeparator));
  }

  private static List<String> make(String[] classPath) {
    // Beside the first directory of classes, which is in the target of the module.
    Optional<Path> directory =
        Stream.of(classPath).map(Path::of).filter(Files::isDirectory).findFirst();
    if (directory.isEmpty()) {
      // Packaged, for a machine that only runs the tests.
      return List.of("-cp", String.join(File.pathSeparator, classPath));
    }
    try {
      return make(classPath, directory.get().resolveSibling("class-archive"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static List<String> make(String[] classPath, Path directory) throws IOException {
    Path build = directory.resolve(Integer.toHexString(state(classPath).hashCode()));
    Path archive = build.resolve("classes.jsa");
    String[] jars = new String[classPath.length];
    for (int i = 0; i < jars.length; i++) {
      boolean isDirectory = Files.isDirectory(Path.of(classPath[i]));
      jars[i] = isDirectory ? build.resolve(i + ".jar").toString() : classPath[i];
    }
    String joined = String.join(File.pathSeparator, jars);
    Files.createDirectories(build);
    try (FileChannel channel =
            FileChannel.open(
                directory.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        FileLock unused = channel.lock()) {
      if (!Files.exists(archive)) {
        for (int i = 0; i < jars.length; i++) {
          if (!jars[i].equals(classPath[i])) {
            pack(classPath[i], jars[i]);
          }
        }
        train(joined, archive);
      }
    }
    return List.of("-XX:SharedArchiveFile=" + archive, "-Xlog:cds=error:stderr", "-cp", joined);
  }

  /** What differs from one build to the next: Java, and each file of the class path. */
  private static List<String> state(String[] classPath) throws IOException {
    List<String> state = new ArrayList<>(List.of(TestJvm.java(), Runtime.version().toString()));
    for (String place : classPath) {
      if (Files.exists(Path.of(place))) {
        try (Stream<Path> files = Files.walk(Path.of(place))) {
          for (Path file : files.sorted().toList()) {
            state.add(file + " " + Files.size(file) + " " + Files.getLastModifiedTime(file));
          }
        }
      }
    }
    return state;
  }

  private static void pack(String directory, String jar) {
    int code =
        ToolProvider.findFirst("jar")
            .orElseThrow()
            .run(System.out, System.err, "cf0", jar, "-C", directory, ".");
    if (code != 0) {
      throw new IllegalStateException("jar of " + directory + " failed with " + code);
    }
  }

  /** Runs {@link #main}, at whose end the JVM writes the archive. */
  private static void train(String classPath, Path archive) throws IOException {
    Path temporary = Files.createTempFile(archive.getParent(), "classes", ".jsa");
    List<String> command =
        TestJvm.start("-XX:ArchiveClassesAtExit=" + temporary, "-Xlog:cds=error:stderr");
    command.addAll(List.of("-cp", classPath, ClassArchive.class.getName()));
    Process training =
        new ProcessBuilder(command)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    try {
      int code = training.waitFor();
      if (code != 0) {
        throw new IllegalStateException("the training run ended with " + code);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while the archive was made", e);
    } finally {
      training.destroyForcibly();
    }
    Files.move(temporary, archive);
  }

  /**
   * Loads our classes, and what a controller uses of the others.
   *
   * @param args nothing
   */
  public static void main(String[] args) throws Exception {
    for (String place : TestJvm.classPath().split(File.pathSeparator)) {
      if (Files.exists(Path.of(place))) {
        try (JarFile jar = new JarFile(place)) {
          for (String name : jar.stream().map(entry -> entry.getName()).toList()) {
            if (name.startsWith(OURS) && name.endsWith(SUFFIX)) {
              load(name.substring(0, name.length() - SUFFIX.length()).replace('/', '.'));
            }
          }
        }
      }
    }
    try (SimulatedDriver machine = SimulatedDriver.create()) {
      Diagnosis unused =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(machine.stateDirectory())
              .build()
              .doctor();
    }
    System.exit(0);
  }

  private static void load(String name) throws ClassNotFoundException {
    try {
      Class<?> unused = Class.forName(name, false, ClassArchive.class.getClassLoader());
    } catch (NoClassDefFoundError e) {
      // Of another module's tests, which need more than this class path has.
    }
  }
}
