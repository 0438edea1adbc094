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
import java.util.Comparator;
import java.util.List;
import java.util.jar.JarFile;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;

/**
 * The class path of the tests with jars in place of directories, and an archive of its classes,
 * which a JVM maps instead of reading and linking them (application class data sharing, which
 * accepts no directories). A JVM that works for a second takes a third less processor time so. Made
 * once for each build and each version of Java, in the module's {@code target}.
 *
 * @param classPath the jars
 * @param archive the file for {@code -XX:SharedArchiveFile}
 */
record ClassArchive(String classPath, Path archive) {

  private static final String OURS = "dev/gpuprocess/";
  private static final String SUFFIX = ".class";

  /** Returns the archive of this build, which is made if it is not there. */
  static ClassArchive current() {
    return Current.ARCHIVE;
  }

  /** Returns the options of a JVM that uses it. */
  List<String> options() {
    return List.of("-XX:SharedArchiveFile=" + archive, "-Xlog:cds=error:stderr", "-cp", classPath);
  }

  private static final class Current {
    static final ClassArchive ARCHIVE = make(TestJvm.classPath().split(File.pathSeparator));
  }

  private static ClassArchive make(String[] classPath) {
    try {
      Path directory = directory(classPath);
      Path build = directory.resolve(Integer.toHexString(state(classPath).hashCode()));
      List<String> jars = new ArrayList<>();
      for (int i = 0; i < classPath.length; i++) {
        boolean isDirectory = Files.isDirectory(Path.of(classPath[i]));
        jars.add(isDirectory ? build.resolve(i + ".jar").toString() : classPath[i]);
      }
      ClassArchive made =
          new ClassArchive(String.join(File.pathSeparator, jars), build.resolve("classes.jsa"));
      Files.createDirectories(build);
      try (FileChannel channel =
              FileChannel.open(
                  directory.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
          FileLock unused = channel.lock()) {
        if (!Files.exists(made.archive)) {
          for (int i = 0; i < classPath.length; i++) {
            if (!jars.get(i).equals(classPath[i])) {
              pack(classPath[i], jars.get(i));
            }
          }
          made.train();
        }
      }
      return made;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Beside the first directory of classes, which is in the {@code target} of the module. */
  private static Path directory(String[] classPath) {
    return Stream.of(classPath)
        .map(Path::of)
        .filter(Files::isDirectory)
        .findFirst()
        .orElseThrow()
        .resolveSibling("class-archive");
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
  private void train() throws IOException {
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
              String path = name.substring(0, name.length() - SUFFIX.length());
              Class.forName(path.replace('/', '.'), false, ClassArchive.class.getClassLoader());
            }
          }
        }
      }
    }
    Path state = Files.createTempDirectory("class-archive");
    try (SimulatedDriver machine = SimulatedDriver.create()) {
      Diagnosis unused =
          GpuCheckpoints.builder().cuda(machine.directory()).stateDirectory(state).build().doctor();
    } finally {
      try (Stream<Path> made = Files.walk(state)) {
        made.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
      }
    }
    System.exit(0);
  }
}
