package dev.gpuprocess.examples.verification;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamReader;

/**
 * The summary at the end of {@code bin/verify}: {@code java VerifySummary.java RUNS [ROWS]}. It is
 * one file that needs only a JDK, because it is also printed after a build that failed.
 *
 * <p>RUNS holds a directory for each run, with {@code title}, Surefire's reports, the {@code
 * figures} of the tests, the results of the tests of each row ({@code outside}), and {@code failed}
 * if the run failed. ROWS is docs/dev/outside-use.md; without it no row is checked.
 */
public final class VerifySummary {

  private static final Pattern ROW = Pattern.compile("^\\| ([A-Z]\\d+) \\|.*");

  /** A row, the result of a test, the test, and perhaps the reason why it was skipped. */
  private static final Pattern RESULT = Pattern.compile("(\\S+) (\\S+) (\\S+) ?(.*)");

  private final PrintStream out;

  VerifySummary(PrintStream out) {
    this.out = out;
  }

  /**
   * Prints the summary and exits: with 0 if nothing failed, with 1 if something failed, with 2 if
   * the arguments are invalid.
   *
   * @param args the directory of the runs, and perhaps the list of rows
   * @throws IOException if a file cannot be read
   */
  public static void main(String[] args) throws IOException {
    if (args.length < 1 || args.length > 2) {
      System.err.println("usage: java VerifySummary.java RUNS [ROWS]");
      System.exit(2);
    }
    Optional<Path> rows = args.length == 2 ? Optional.of(Path.of(args[1])) : Optional.empty();
    System.exit(new VerifySummary(System.out).print(Path.of(args[0]), rows) ? 0 : 1);
  }

  /** Prints the summary and returns whether nothing failed. */
  boolean print(Path runs, Optional<Path> rows) throws IOException {
    List<Run> all = new ArrayList<>();
    for (Path directory : list(runs)) {
      if (Files.exists(directory.resolve("title"))) {
        Run run = Run.read(directory);
        describe(run);
        all.add(run);
      }
    }
    out.println();
    int passed = all.stream().mapToInt(Run::passed).sum();
    int failed = all.stream().mapToInt(Run::failed).sum();
    int skipped = all.stream().mapToInt(Run::skipped).sum();
    boolean rowsHold = rows.isEmpty() || outsideUse(Files.readAllLines(rows.get()), all);
    // A build that failed has not run the tests of every row.
    if (!rowsHold && failed == 0) {
      failed = 1;
    }
    out.println();
    out.println(" passed  failed  skipped  run");
    for (Run run : all) {
      if (run.passed() + run.failed() + run.skipped() > 0) {
        out.println(
            String.format(
                Locale.ROOT,
                "%7d %7d %8d  %s",
                run.passed(),
                run.failed(),
                run.skipped(),
                run.title()));
      }
    }
    out.println();
    out.println(passed + " passed, " + failed + " failed, " + skipped + " skipped");
    return failed == 0;
  }

  private void describe(Run run) {
    if (run.failedWithoutATest()) {
      out.println("\nFailed without a failed test, see its output above: " + run.title());
    }
    show("Failed", run, run.failures());
    show("Skipped", run, run.skips());
    show("Figures", run, run.figures());
    show("Slowest classes, in seconds", run, run.slowest());
  }

  private void show(String what, Run run, List<String> lines) {
    if (!lines.isEmpty()) {
      out.println("\n" + what + ": " + run.title());
      lines.forEach(line -> out.println("  " + line));
    }
  }

  /**
   * Prints the rows that do not hold and the number of those that do. Returns whether each row has
   * a test, no test failed, and each test names a row of the list.
   */
  private boolean outsideUse(List<String> lines, List<Run> runs) {
    Map<String, Row> rows = new LinkedHashMap<>();
    for (String line : lines) {
      Matcher row = ROW.matcher(line);
      if (row.matches()) {
        rows.put(row.group(1), new Row());
      }
    }
    boolean good = true;
    for (String line : runs.stream().flatMap(run -> run.outside().stream()).toList()) {
      Matcher result = RESULT.matcher(line);
      Row row = result.matches() ? rows.get(result.group(1)) : null;
      if (row == null) {
        out.println("  unknown row: " + line);
        good = false;
      } else {
        row.add(result.group(2), result.group(3), result.group(4));
      }
    }
    for (Map.Entry<String, Row> row : rows.entrySet()) {
      String verdict = row.getValue().verdict();
      if (!verdict.isEmpty()) {
        out.println("  " + row.getKey() + ": " + verdict);
      }
      good &= row.getValue().isGood();
    }
    long hold = rows.values().stream().filter(Row::holds).count();
    out.println("outside use: " + hold + " of " + rows.size() + " rows hold");
    return good;
  }

  /** The results of the tests of one row, over all runs. */
  private static final class Row {

    private final List<String> failed = new ArrayList<>();
    private boolean passed;
    private String skipped = "";

    void add(String result, String test, String why) {
      switch (result) {
        case "passed" -> passed = true;
        case "failed" -> failed.add(test);
        default -> skipped = why.isEmpty() ? test : why;
      }
    }

    boolean holds() {
      return passed && failed.isEmpty();
    }

    /** Returns whether the row holds or cannot be checked on this machine. */
    boolean isGood() {
      return failed.isEmpty() && (passed || !skipped.isEmpty());
    }

    /** Returns why the row does not hold; empty if it holds. */
    String verdict() {
      if (!failed.isEmpty()) {
        return "failed: " + String.join(" ", failed);
      }
      if (passed) {
        return "";
      }
      return skipped.isEmpty() ? "no test ran" : "not checked here: " + skipped;
    }
  }

  /**
   * One run of the build.
   *
   * @param title the name of the run
   * @param passed the number of tests that passed
   * @param failed the number of tests that failed; 1 if the run failed without a failed test
   * @param skipped the number of skipped tests
   * @param failures {@code class.test: message} of each failed test
   * @param skips {@code class.test: reason} of each skipped test
   * @param figures the lines that tests report
   * @param outside the results of the tests of rows
   * @param slowest {@code seconds class} of the classes that took longest
   */
  private record Run(
      String title,
      int passed,
      int failed,
      int skipped,
      List<String> failures,
      List<String> skips,
      List<String> figures,
      List<String> outside,
      List<String> slowest) {

    static Run read(Path directory) throws IOException {
      Reports reports = new Reports();
      for (Path file : list(directory)) {
        if (file.toString().endsWith(".xml")) {
          reports.read(file);
        }
      }
      boolean broken = Files.exists(directory.resolve("failed")) && reports.failed == 0;
      return new Run(
          Files.readString(directory.resolve("title")).strip(),
          reports.passed,
          broken ? 1 : reports.failed,
          reports.skipped,
          reports.failures,
          reports.skips,
          lines(directory.resolve("figures")),
          lines(directory.resolve("outside")),
          reports.slowest());
    }

    /** Returns whether the run failed without a failed test, in the compiler for instance. */
    boolean failedWithoutATest() {
      return failed > 0 && failures.isEmpty();
    }

    private static List<String> lines(Path file) throws IOException {
      return Files.exists(file) ? Files.readAllLines(file) : List.of();
    }
  }

  /** Surefire's reports of one run. */
  private static final class Reports {

    private static final XMLInputFactory XML = factory();
    private static final int SLOWEST = 10;

    private int passed;
    private int failed;
    private int skipped;
    private final List<String> failures = new ArrayList<>();
    private final List<String> skips = new ArrayList<>();
    private final Map<String, Double> seconds = new HashMap<>();

    private static XMLInputFactory factory() {
      XMLInputFactory factory = XMLInputFactory.newFactory();
      factory.setProperty(XMLInputFactory.SUPPORT_DTD, false);
      factory.setProperty(XMLInputFactory.IS_COALESCING, true);
      return factory;
    }

    void read(Path file) throws IOException {
      try (InputStream in = Files.newInputStream(file)) {
        XMLStreamReader xml = XML.createXMLStreamReader(in);
        String test = "";
        while (xml.hasNext()) {
          if (xml.next() == XMLStreamConstants.START_ELEMENT) {
            switch (xml.getLocalName()) {
              case "testsuite" -> count(xml);
              case "testcase" -> test = name(xml);
              case "failure", "error" -> failures.add(test + ": " + message(xml));
              case "skipped" -> skips.add(test + ": " + message(xml));
              default -> {}
            }
          }
        }
      } catch (XMLStreamException e) {
        // A JVM that crashed leaves an incomplete report.
        failed++;
        failures.add(file.getFileName() + ": cannot be read: " + firstLine(e.toString()));
      }
    }

    private void count(XMLStreamReader suite) {
      int bad = number(suite, "failures") + number(suite, "errors");
      failed += bad;
      skipped += number(suite, "skipped");
      passed += number(suite, "tests") - bad - number(suite, "skipped");
      // Surefire groups the digits of long times.
      String time = Objects.toString(suite.getAttributeValue(null, "time"), "0").replace(",", "");
      seconds.merge(
          Objects.toString(suite.getAttributeValue(null, "name"), ""),
          Double.parseDouble(time),
          Double::sum);
    }

    List<String> slowest() {
      return seconds.entrySet().stream()
          .filter(each -> each.getValue() >= 1)
          .sorted(Map.Entry.<String, Double>comparingByValue().reversed())
          .limit(SLOWEST)
          .map(each -> String.format(Locale.ROOT, "%5.0f %s", each.getValue(), each.getKey()))
          .toList();
    }

    private static int number(XMLStreamReader xml, String attribute) {
      return Integer.parseInt(Objects.toString(xml.getAttributeValue(null, attribute), "0"));
    }

    private static String name(XMLStreamReader xml) {
      String test = Objects.toString(xml.getAttributeValue(null, "name"), "");
      String in = Objects.toString(xml.getAttributeValue(null, "classname"), "");
      return test.isEmpty() ? in : in + "." + test;
    }

    private static String message(XMLStreamReader xml) throws XMLStreamException {
      String message = firstLine(Objects.toString(xml.getAttributeValue(null, "message"), ""));
      String text = message.isEmpty() ? firstLine(xml.getElementText()) : message;
      return text.replaceFirst("^[a-z]+[.][a-zA-Z0-9_.$]+: ", "")
          .replaceFirst("^Assumption failed: ", "");
    }

    private static String firstLine(String text) {
      return text.strip().lines().findFirst().orElse("");
    }
  }

  private static List<Path> list(Path directory) throws IOException {
    try (Stream<Path> entries = Files.list(directory)) {
      return entries.sorted().toList();
    }
  }
}
