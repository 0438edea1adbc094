package dev.gpuprocess.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The code on the pages and in the javadoc is compiled and run by the build. */
class DocumentationTest {

  private static final Path ROOT = Path.of(System.getProperty("gpuprocess.root"));
  private static final Path SNIPPETS =
      ROOT.resolve("examples/src/test/java/dev/gpuprocess/examples/SnippetsTest.java");
  private static final List<Path> COOKBOOK =
      Stream.of("main", "test")
          .map(tree -> "examples/src/" + tree + "/java/dev/gpuprocess/examples/cookbook")
          .map(ROOT::resolve)
          .toList();
  private static final Pattern README_BLOCK =
      Pattern.compile("^```java\\n(.*?)^```$", Pattern.DOTALL | Pattern.MULTILINE);
  private static final Pattern REGION =
      Pattern.compile(
          "^ *// \\[start:(\\w+)]\\n(.*?)\\n *// \\[end:\\1]$", Pattern.DOTALL | Pattern.MULTILINE);

  /** The first class in a numbered line. */
  private static final Pattern WALK =
      Pattern.compile("^\\d+\\. [^`\\n]*`(\\w+)`", Pattern.MULTILINE);

  /** A link within the repository, without the heading. */
  private static final Pattern LINK = Pattern.compile("]\\((?!https?:)([^)#\\s]+)[^)]*\\)");

  /** A row of a table of reports, and a test in it. */
  private static final Pattern REPORT = Pattern.compile("^\\| ([HML]?\\d|LOW)");

  private static final Pattern NAMED_TEST = Pattern.compile("`(\\w+)#(\\w+)`");

  private static final Pattern JAVADOC_BLOCK =
      Pattern.compile("<pre>\\{@code\\n(.*?)\\n *\\* }</pre>", Pattern.DOTALL);

  @Test
  void readmeAndGuideShowTheSnippets() throws IOException {
    List<String> shown = new ArrayList<>();
    for (String page : List.of("README.md", "docs/guide.md")) {
      List<String> blocks = javaBlocks(ROOT.resolve(page));
      assertFalse(blocks.isEmpty(), page + " shows no Java");
      shown.addAll(blocks);
    }
    assertEquals(
        regions(SNIPPETS).stream().sorted().toList(),
        shown.stream().sorted().toList(),
        "the regions of SnippetsTest and the Java blocks of README.md and docs/guide.md");
  }

  @Test
  void readmeIsShort() throws IOException {
    String readme = Files.readString(ROOT.resolve("README.md"));
    assertTrue(readme.lines().count() <= 160, "README.md has more than 160 lines");
    assertTrue(readme.split("\\s+").length <= 900, "README.md has more than 900 words");
  }

  @Test
  void cookbookShowsTheRecipes() throws IOException {
    List<String> recipes = new ArrayList<>();
    for (Path directory : COOKBOOK) {
      for (Path source : files(directory, ".java")) {
        recipes.addAll(regions(source));
      }
    }
    List<String> shown = javaBlocks(ROOT.resolve("docs/cookbook.md"));
    assertEquals(5, shown.size(), "the recipes that docs/cookbook.md shows");
    assertEquals(
        recipes.stream().sorted().toList(),
        shown.stream().sorted().toList(),
        "the regions of the cookbook's sources and the Java blocks of docs/cookbook.md");
  }

  @Test
  void noOtherPageShowsJava() throws IOException {
    for (Path page : files(ROOT.resolve("docs"), ".md")) {
      if (!page.endsWith("cookbook.md") && !page.endsWith("guide.md")) {
        assertEquals(List.of(), javaBlocks(page), page + " shows Java that no test compiles");
      }
    }
  }

  @Test
  void architectureNamesExistingClasses() throws IOException {
    Set<String> classes =
        mainSources().stream()
            .map(source -> source.getFileName().toString().replace(".java", ""))
            .collect(Collectors.toSet());
    List<String> walk = new ArrayList<>();
    Matcher step = WALK.matcher(Files.readString(ROOT.resolve("docs/dev/architecture.md")));
    while (step.find()) {
      walk.add(step.group(1));
    }
    assertTrue(walk.size() > 10 && walk.size() <= 15, walk.toString());
    walk.removeAll(classes);
    assertEquals(List.of(), walk, "classes of docs/dev/architecture.md that do not exist");
  }

  @Test
  void rowsOfPublicReportsNameExistingTests() throws IOException {
    Map<String, String> sources = new HashMap<>();
    for (Path source : files(ROOT, "Test.java")) {
      String name = source.getFileName().toString().replace(".java", "");
      sources.merge(name, Files.readString(source), String::concat);
    }
    List<String> missing = new ArrayList<>();
    int rows = 0;
    for (String line : Files.readAllLines(ROOT.resolve("docs/dev/public-reports.md"))) {
      if (!REPORT.matcher(line).find()) {
        continue;
      }
      rows++;
      List<MatchResult> tests = NAMED_TEST.matcher(line).results().toList();
      assertFalse(tests.isEmpty(), "no test in: " + line);
      for (MatchResult test : tests) {
        if (!sources.getOrDefault(test.group(1), "").contains("void " + test.group(2) + "(")) {
          missing.add(test.group());
        }
      }
    }
    assertTrue(rows > 60, rows + " rows");
    assertEquals(List.of(), missing, "tests of docs/dev/public-reports.md that do not exist");
  }

  @Test
  void linksLeadToFiles() throws IOException {
    List<Path> pages = new ArrayList<>(files(ROOT.resolve("docs"), ".md"));
    for (String page : List.of("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")) {
      pages.add(ROOT.resolve(page));
    }
    pages.add(ROOT.resolve("src-test-fixtures/README.md"));
    for (Path page : pages) {
      Matcher link = LINK.matcher(Files.readString(page));
      while (link.find()) {
        assertTrue(
            Files.exists(page.resolveSibling(link.group(1)).normalize()),
            page + " links to " + link.group(1) + ", which does not exist");
      }
    }
  }

  @Test
  void javadocShowsCodeThatRuns() throws IOException {
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
  void fixturesReadmeShowsCodeThatRuns() throws IOException {
    Path readme = ROOT.resolve("src-test-fixtures/README.md");
    Matcher block = README_BLOCK.matcher(Files.readString(readme));
    assertTrue(block.find(), "no code in " + readme);
    assertLinesRun(readme, block.group(1));
  }

  /** Compares line by line without spaces, which the formatter changes. */
  private static void assertLinesRun(Path source, String code) throws IOException {
    String snippets = withoutSpaces(Files.readString(SNIPPETS));
    for (String line : code.lines().toList()) {
      assertTrue(
          snippets.contains(withoutSpaces(line)),
          source + " shows a line that is not in SnippetsTest: " + line);
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
        "README.md has another version than " + version.group(1));
  }

  private static List<String> regions(Path source) throws IOException {
    List<String> regions = new ArrayList<>();
    Matcher region = REGION.matcher(Files.readString(source));
    while (region.find()) {
      regions.add(region.group(2).stripIndent() + "\n");
    }
    return regions;
  }

  private static List<String> javaBlocks(Path page) throws IOException {
    List<String> shown = new ArrayList<>();
    Matcher block = README_BLOCK.matcher(Files.readString(page));
    while (block.find()) {
      shown.add(block.group(1));
    }
    return shown;
  }

  private static List<Path> files(Path directory, String suffix) throws IOException {
    try (Stream<Path> files = Files.walk(directory)) {
      return files.filter(file -> file.toString().endsWith(suffix)).sorted().toList();
    }
  }

  private static String withoutSpaces(String code) {
    return code.replaceAll("\\s+", "");
  }

  private static List<Path> mainSources() throws IOException {
    List<Path> sources = new ArrayList<>();
    for (String module : List.of("cuda-checkpoint-api", "criu-driver", "src-test-fixtures")) {
      sources.addAll(files(ROOT.resolve(module).resolve("src/main/java"), ".java"));
    }
    return sources;
  }
}
