package dev.gpuprocess.examples;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.time.ZonedDateTime;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The content of the jars for users, as the build has just made them. */
class JarsTest {

  private static final Path ROOT = Path.of(System.getProperty("gpuprocess.root"));

  private static List<Path> jars(String module, boolean ofJavadoc) throws IOException {
    Path target = ROOT.resolve(module).resolve("target");
    if (!Files.isDirectory(target)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(target)) {
      return files
          .filter(file -> file.toString().endsWith(".jar"))
          .filter(file -> file.toString().endsWith("-javadoc.jar") == ofJavadoc)
          .toList();
    }
  }

  private static LocalDateTime timestamp() throws IOException {
    Matcher property =
        Pattern.compile("<project.build.outputTimestamp>(.*)</project.build.outputTimestamp>")
            .matcher(Files.readString(ROOT.resolve("pom.xml")));
    assertTrue(property.find(), "the build has no fixed time");
    return ZonedDateTime.parse(property.group(1)).toLocalDateTime();
  }

  @ParameterizedTest
  @ValueSource(strings = {"src-test-fixtures", "cuda-checkpoint-api", "criu-driver"})
  void haveLicenceAndFixedTimesAndNoFilesOfTheBuild(String module) throws IOException {
    List<Path> jars = jars(module, false);
    assumeTrue(!jars.isEmpty(), "no jars yet: mvn package makes them");
    LocalDateTime timestamp = timestamp();
    for (Path path : jars) {
      try (JarFile jar = new JarFile(path.toFile())) {
        assertNotNull(jar.getEntry("META-INF/LICENSE"), () -> path + " has no META-INF/LICENSE");
        for (JarEntry entry : jar.stream().toList()) {
          String name = path.getFileName() + ": " + entry.getName();
          // The classes of protobuf and gson keep the times that they have in their own jars.
          if (!entry
              .getName()
              .matches("dev/gpuprocess/(criu/internal/protobuf|internal/gson)/.*")) {
            assertEquals(timestamp, entry.getTimeLocal(), name);
          }
          // The build makes such files for itself, as .built.
          assertTrue(!entry.getName().matches("(.*/)?[.][^/]+"), name);
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuda-checkpoint-api", "criu-driver"})
  void javadocHasExportedPackagesAlone(String module) throws IOException {
    List<Path> jars = jars(module, true);
    assumeTrue(!jars.isEmpty(), "no javadoc yet: mvn package makes it");
    for (Path path : jars) {
      try (JarFile jar = new JarFile(path.toFile())) {
        // Pages of an earlier build may still be there.
        JarEntry list = jar.getJarEntry("element-list");
        assertNotNull(list, () -> path + " lists no packages");
        String packages = new String(jar.getInputStream(list).readAllBytes(), UTF_8);
        assertTrue(packages.contains("dev.gpuprocess"), packages);
        assertFalse(packages.contains(".internal"), packages);
        assertFalse(packages.contains(".proto"), packages);
      }
    }
  }
}
