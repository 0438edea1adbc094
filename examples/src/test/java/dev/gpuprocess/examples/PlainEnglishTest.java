package dev.gpuprocess.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/**
 * Comments, messages and pages use no words that were rewritten everywhere because readers stumbled
 * over them.
 */
class PlainEnglishTest {

  private static final Path ROOT = Path.of(System.getProperty("gpuprocess.root"));

  private static final Pattern REWRITTEN =
      Pattern.compile(
          String.join(
              "|",
              "\\b[Ww]ho(?:m)?ever\\b",
              "\\b[Ss]omebody\\b",
              "(?:^|[.;:*] )(?:Who|Whom|Whose) [a-z]",
              "\\b(?:he|those) who\\b",
              "\\b(?:is|are|was|were|be|been) (?:told|heard|let go|given up)\\b",
              "\\bmeanwhile\\b|\\banew\\b|\\blest\\b",
              "\\bthen and there\\b|\\bfor ever\\b|\\bin place of\\b",
              "\\bhas (?:had )?its turn\\b"));

  private static final Set<String> NOT_OURS = Set.of("target", ".git", ".gpu", ".lab", "gpu-runs");

  @Test
  void textIsPlain() throws IOException {
    List<String> found = new ArrayList<>();
    List<Path> files = texts();
    assertTrue(files.size() > 500, "only " + files.size() + " files were found");
    for (Path file : files) {
      List<String> lines = Files.readAllLines(file);
      for (int i = 0; i < lines.size(); i++) {
        if (isText(file, lines.get(i)) && REWRITTEN.matcher(lines.get(i)).find()) {
          found.add("%s:%s: %s".formatted(ROOT.relativize(file), i + 1, lines.get(i).strip()));
        }
      }
    }
    assertEquals(List.of(), found, "say it in plain English");
  }

  /** Whether a line is a comment, has a string or a comment at its end, or is of a page. */
  private static boolean isText(Path file, String line) {
    String stripped = line.strip();
    return file.toString().endsWith(".md")
        || stripped.startsWith("*")
        || stripped.startsWith("/")
        || stripped.startsWith("#")
        || line.contains("//")
        || line.contains("\"");
  }

  private static List<Path> texts() throws IOException {
    List<Path> texts = new ArrayList<>();
    Files.walkFileTree(
        ROOT,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult preVisitDirectory(Path directory, BasicFileAttributes attributes) {
            boolean isSource = ROOT.relativize(directory).toString().contains("src/main/java");
            return !isSource && NOT_OURS.contains(directory.getFileName().toString())
                ? FileVisitResult.SKIP_SUBTREE
                : FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
            String name = file.getFileName().toString().toLowerCase(Locale.ROOT);
            boolean isScript = file.startsWith(ROOT.resolve("bin"));
            if (!name.equals("changelog.md")
                && !name.equals("plainenglishtest.java")
                && attributes.isRegularFile()
                && (isScript || name.matches(".*\\.(java|md|c|h|sh)"))) {
              texts.add(file);
            }
            return FileVisitResult.CONTINUE;
          }
        });
    return texts;
  }
}
