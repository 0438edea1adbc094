package dev.gpuprocess.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What is shown to readers is what the build compiles and runs. */
class DocumentationTest {

  private static final Path ROOT = Path.of(System.getProperty("gpuprocess.root"));
  private static final Path SNIPPETS =
      ROOT.resolve("examples/src/test/java/dev/gpuprocess/examples/SnippetsTest.java");
  private static final Pattern README_BLOCK =
      Pattern.compile("^```java\\n(.*?)^```$", Pattern.DOTALL | Pattern.MULTILINE);
  private static final Pattern REGION =
      Pattern.compile(
          "^ *// \\[start:(\\w+)]\\n(.*?)\\n *// \\[end:\\1]$", Pattern.DOTALL | Pattern.MULTILINE);
  private static final Pattern JAVADOC_BLOCK =
      Pattern.compile("<pre>\\{@code\\n(.*?)\\n *\\* }</pre>", Pattern.DOTALL);

  @Test
  void readmeShowsTheSnippetsThatRun() throws IOException {
    List<String> regions = new ArrayList<>();
    Matcher region = REGION.matcher(Files.readString(SNIPPETS));
    while (region.find()) {
      regions.add(region.group(2).stripIndent() + "\n");
    }
    List<String> shown = new ArrayList<>();
    Matcher block = README_BLOCK.matcher(Files.readString(ROOT.resolve("README.md")));
    while (block.find()) {
      shown.add(block.group(1));
    }
    assertFalse(shown.isEmpty(), "README.md shows no Java");
    assertEquals(regions, shown, "the regions of SnippetsTest and the Java blocks of README.md");
  }

  @Test
  void javadocShowsWhatRuns() throws IOException {
    int seen = 0;
    for (Path source : mainSources()) {
      Matcher block = JAVADOC_BLOCK.matcher(Files.readString(source));
      while (block.find()) {
        assertLinesRun(source, block.group(1).replaceAll("(?m)^ *\\*", ""));
        seen++;
      }
    }
    assertTrue(seen > 0, "no javadoc with code was found");
  }

  @Test
  void fixturesReadmeShowsWhatRuns() throws IOException {
    Path readme = ROOT.resolve("src-test-fixtures/README.md");
    Matcher block = README_BLOCK.matcher(Files.readString(readme));
    assertTrue(block.find(), "no code in " + readme);
    assertLinesRun(readme, block.group(1));
  }

  /** Line by line and whatever the spaces, as the formatter has its own mind about them. */
  private static void assertLinesRun(Path source, String code) throws IOException {
    String snippets = withoutSpaces(Files.readString(SNIPPETS));
    for (String line : code.lines().toList()) {
      assertTrue(
          snippets.contains(withoutSpaces(line)),
          source + " shows what SnippetsTest does not: " + line);
    }
  }

  @Test
  void readmeNamesThisVersion() throws IOException {
    Matcher version =
        Pattern.compile("<version>([^<]+)</version>")
            .matcher(Files.readString(ROOT.resolve("pom.xml")));
    assertTrue(version.find());
    assertTrue(
        Files.readString(ROOT.resolve("README.md"))
            .contains("<version>" + version.group(1) + "</version>"),
        "README.md asks for another version than " + version.group(1));
  }

  private static String withoutSpaces(String code) {
    return code.replaceAll("\\s+", "");
  }

  private static List<Path> mainSources() throws IOException {
    List<Path> sources = new ArrayList<>();
    for (String module : List.of("cuda-checkpoint-api", "criu-driver", "src-test-fixtures")) {
      try (Stream<Path> files = Files.walk(ROOT.resolve(module).resolve("src/main/java"))) {
        files.filter(file -> file.toString().endsWith(".java")).forEach(sources::add);
      }
    }
    return sources;
  }
}
