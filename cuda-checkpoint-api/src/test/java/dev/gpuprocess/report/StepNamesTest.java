package dev.gpuprocess.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Dashboards select steps by their names: docs/guide.md lists all of them. */
class StepNamesTest {

  private static final Path ROOT = Path.of(System.getProperty("gpuprocess.root"));
  private static final Pattern STEP =
      Pattern.compile("steps(?:\\(\\))?\\s*\\.run(?:Noted)?\\(\\s*\"([a-z ]+)\"");

  @Test
  void guideListsEachStep() throws IOException {
    Set<String> names = new TreeSet<>();
    try (Stream<Path> sources = Files.walk(ROOT.resolve("cuda-checkpoint-api/src/main/java"))) {
      for (Path source : sources.filter(each -> each.toString().endsWith(".java")).toList()) {
        STEP.matcher(Files.readString(source))
            .results()
            .forEach(found -> names.add(found.group(1)));
      }
    }
    assertTrue(names.containsAll(Set.of("lock", "seal", "criu restore")), names::toString);
    List<String> rows =
        Files.readAllLines(ROOT.resolve("docs/guide.md")).stream()
            .filter(line -> line.startsWith("| `"))
            .map(line -> line.substring(1, line.indexOf('|', 1)))
            .toList();
    assertEquals(
        List.of(),
        names.stream()
            .filter(name -> rows.stream().noneMatch(row -> row.contains("`" + name + "`")))
            .toList());
  }
}
