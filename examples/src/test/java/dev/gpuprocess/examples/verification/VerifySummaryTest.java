package dev.gpuprocess.examples.verification;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.TestJvm;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@NullUnmarked
class VerifySummaryTest {

  private static final String SUITE =
      """
      <?xml version="1.0" encoding="UTF-8"?>
      <testsuite name="a.B" tests="%d" errors="%d" skipped="%d" failures="%d">
      %s
      </testsuite>
      """;

  @TempDir Path directory;
  private Path runs;
  private Path rows;
  private String printed;

  @BeforeEach
  void makeDirectories() throws IOException {
    runs = Files.createDirectory(directory.resolve("runs"));
    rows = directory.resolve("rows.md");
    Files.writeString(rows, "| row | what |\n|---|---|\n| A1 | this |\n| B12 | that |\n");
  }

  private Path run(String name, String title) throws IOException {
    Path run = Files.createDirectory(runs.resolve(name));
    Files.writeString(run.resolve("title"), title + "\n");
    return run;
  }

  private Path successfulRun() throws IOException {
    Path run = run("build", "the build");
    Files.writeString(run.resolve("m-TEST-a.B.xml"), SUITE.formatted(3, 0, 0, 0, ""));
    Files.writeString(run.resolve("outside"), "A1 passed B.one\nB12 passed B.two\n");
    return run;
  }

  private boolean print() throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    boolean good =
        new VerifySummary(new PrintStream(bytes, true, StandardCharsets.UTF_8))
            .print(runs, Optional.of(rows));
    printed = bytes.toString(StandardCharsets.UTF_8);
    return good;
  }

  private void assertPrinted(String... lines) {
    assertTrue(printed.contains(String.join("\n", lines) + "\n"), printed);
  }

  @Test
  void printsASuccessfulRun() throws IOException {
    Files.writeString(successfulRun().resolve("figures"), "crash test: 20 kills, 0 lost\n");
    run("scripts", "shellcheck");
    assertTrue(print());
    assertEquals(
        """

        Figures: the build
          crash test: 20 kills, 0 lost

        outside use: 2 of 2 rows hold

         passed  failed  skipped  run
              3       0        0  the build

        3 passed, 0 failed, 0 skipped
        """,
        printed);
  }

  /** A class may run in parts, such as with two sets of arguments. */
  @Test
  void listsTheSlowestClasses() throws IOException {
    Path run = run("build", "the build");
    String suite = "<testsuite name=\"a.%s\" time=\"%s\" tests=\"1\"/>";
    Files.writeString(run.resolve("1.xml"), suite.formatted("Quick", "0.4"));
    Files.writeString(run.resolve("2.xml"), suite.formatted("Twice", "7.25"));
    Files.writeString(run.resolve("3.xml"), suite.formatted("Twice", "4.1"));
    Files.writeString(run.resolve("4.xml"), suite.formatted("Slow", "1,204.6"));
    print();
    assertPrinted(
        "Slowest classes, in seconds: the build", "   1205 a.Slow", "     11 a.Twice", "");
  }

  @Test
  void namesFailedAndSkippedTestsWithReasons() throws IOException {
    Path run = successfulRun();
    Files.writeString(
        run.resolve("m-TEST-a.C.xml"),
        SUITE.formatted(
            4,
            1,
            2,
            1,
            """
            <testcase name="one" classname="a.C"><failure
             message="expected: &lt;1&gt; &amp; got &apos;2&apos;&#10;second line" type="x"/></testcase>
            <testcase name="two" classname="a.C"><error type="x"><![CDATA[java.io.IOException: no disk
              at a.C]]></error><system-out><![CDATA[<failure message="no"/>]]></system-out></testcase>
            <testcase name="three" classname="a.C"><skipped message="needs root: mounts"/></testcase>
            <testcase name="" classname="a.C">
            <skipped message="org.opentest4j.TestAbortedException: Assumption failed: no sudo"/></testcase>"""));
    assertFalse(print());
    assertPrinted("Failed: the build", "  a.C.one: expected: <1> & got '2'", "  a.C.two: no disk");
    assertPrinted("Skipped: the build", "  a.C.three: needs root: mounts", "  a.C: no sudo");
    assertPrinted("3 passed, 2 failed, 2 skipped");
  }

  @Test
  void countsARunThatFailedWithoutATest() throws IOException {
    successfulRun();
    Files.createFile(run("newer", "tests on another JDK").resolve("failed"));
    assertFalse(print());
    assertPrinted("Failed without a failed test, see its output above: tests on another JDK");
    assertPrinted(
        "      0       1        0  tests on another JDK", "", "3 passed, 1 failed, 0 skipped");
  }

  @Test
  void countsAnIncompleteReportAsFailure() throws IOException {
    Files.writeString(
        successfulRun().resolve("m-TEST-a.D.xml"), "<testsuite tests=\"1\"><testcase");
    assertFalse(print());
    assertTrue(printed.contains("m-TEST-a.D.xml: cannot be read: "), printed);
  }

  @Test
  void combinesAllRunsForARow() throws IOException {
    Files.writeString(successfulRun().resolve("outside"), "A1 passed B.one\nB12 passed B.two\n");
    Path newer = run("newer", "again");
    Files.writeString(newer.resolve("outside"), "A1 failed B.one\nB12 skipped B.two no sudo\n");
    assertFalse(print());
    assertPrinted("  A1: failed: B.one", "outside use: 1 of 2 rows hold");
  }

  @Test
  void reportsARowThatCannotBeCheckedWithoutFailure() throws IOException {
    Files.writeString(
        successfulRun().resolve("outside"), "A1 passed B.one\nB12 skipped B.two no sudo\n");
    assertTrue(print());
    assertPrinted("  B12: not checked here: no sudo", "outside use: 1 of 2 rows hold");
  }

  @Test
  void failsForARowWithoutATestAndATestWithoutARow() throws IOException {
    Files.writeString(successfulRun().resolve("outside"), "A1 passed B.one\nZ9 passed B.two\n");
    assertFalse(print());
    assertPrinted("  unknown row: Z9 passed B.two", "  B12: no test ran");
    assertPrinted("3 passed, 1 failed, 0 skipped");
  }

  /** As bin/verify does after a failed build, when nothing is compiled. */
  @Test
  void runsFromItsSource() throws IOException, InterruptedException {
    successfulRun();
    Path source =
        Path.of(System.getProperty("gpuprocess.root"))
            .resolve("examples/src/main/java")
            .resolve(VerifySummary.class.getName().replace('.', '/') + ".java");
    Process process =
        new ProcessBuilder(TestJvm.java(), source.toString(), runs.toString(), rows.toString())
            .redirectErrorStream(true)
            .start();
    List<String> lines = process.inputReader(StandardCharsets.UTF_8).lines().toList();
    assertTrue(process.waitFor(50, TimeUnit.SECONDS));
    assertEquals("3 passed, 0 failed, 0 skipped", lines.get(lines.size() - 1));
    assertEquals(0, process.exitValue());
  }
}
