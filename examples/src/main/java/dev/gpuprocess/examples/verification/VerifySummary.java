package dev.gpuprocess.examples.verification;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
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
 * The summary that closes {@code bin/verify}. One file that needs nothing but a JDK, because it is
 * also wanted when the build has failed: {@code java VerifySummary.java RUNS [ROWS]}.
 *
 * <p>RUNS holds a directory for each run, with {@code title}, Surefire's reports, {@code figures}
 * that tests asked to have shown, how the tests of each row ended ({@code outside}), and {@code
 * failed} if the run failed. ROWS is docs/outside-use.md; without it no row is checked.
 */
public final class VerifySummary {

  private static final Pattern ROW = Pattern.compile("^\\| ([A-Z]\\d+) \\|.*");

  /** A row, how a test of it ended, which, and perhaps why it was skipped. */
  private static final Pattern ENDED = Pattern.compile("(\\S+) (\\S+) (\\S+) ?(.*)");

  private final PrintStream out;

  VerifySummary(PrintStream out) {
    this.out = out;
  }

  /**
   * Prints the summary and ends the JVM: 0 if nothing failed, 1 if something did, 2 if the
   * arguments are not understood.
   *
   * @param args the directory of the runs, and perhaps the list of rows
   * @throws IOException if they cannot be read
   */
  public static void main(String[] args) throws IOException {
    if (args.length < 1 || args.length > 2) {
      System.err.println("usage: java VerifySummary.java RUNS [ROWS]");
      System.exit(2);
    }
    Optional<Path> rows = args.length == 2 ? Optional.of(Path.of(args[1])) : Optional.empty();
    System.exit(new VerifySummary(System.out).print(Path.of(args[0]), rows) ? 0 : 1);
  }

  /** Prints it; whether nothing failed. */
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
    // Only a build that came to its end has run every row's tests.
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
  }

  private void show(String what, Run run, List<String> lines) {
    if (!lines.isEmpty()) {
      out.println("\n" + what + ": " + run.title());
      lines.forEach(line -> out.println("  " + line));
    }
  }

  /**
   * Says which rows do not hold, a line each, and how many do. Whether each has a test and none
   * failed, and each test that names a row names one that there is.
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
      Matcher ended = ENDED.matcher(line);
      Row row = ended.matches() ? rows.get(ended.group(1)) : null;
      if (row == null) {
        out.println("  there is no such row: " + line);
        good = false;
      } else {
        row.note(ended.group(2), ended.group(3), ended.group(4));
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

  /** How the tests of one row ended, over all runs. */
  private static final class Row {

    private final List<String> failed = new ArrayList<>();
    private boolean passed;
    private String skipped = "";

    void note(String how, String test, String why) {
      switch (how) {
        case "passed" -> passed = true;
        case "failed" -> failed.add(test);
        default -> skipped = why.isEmpty() ? test : why;
      }
    }

    boolean holds() {
      return passed && failed.isEmpty();
    }

    /** Whether it holds, or this machine cannot tell. */
    boolean isGood() {
      return failed.isEmpty() && (passed || !skipped.isEmpty());
    }

    /** What there is to say of it; nothing if it holds. */
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
   * @param title what it was
   * @param passed tests
   * @param failed tests; 1 if the run failed without one
   * @param skipped tests
   * @param failures {@code class.test: message} of each
   * @param skips the same
   * @param figures lines that tests asked to have shown
   * @param outside how tests of rows ended
   */
  private record Run(
      String title,
      int passed,
      int failed,
      int skipped,
      List<String> failures,
      List<String> skips,
      List<String> figures,
      List<String> outside) {

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
          lines(directory.resolve("outside")));
    }

    /** A check or a compiler failed, say. */
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

    private int passed;
    private int failed;
    private int skipped;
    private final List<String> failures = new ArrayList<>();
    private final List<String> skips = new ArrayList<>();

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
        // Half a report is what a JVM leaves that died.
        failed++;
        failures.add(file.getFileName() + ": cannot be read: " + firstLine(e.toString()));
      }
    }

    private void count(XMLStreamReader suite) {
      int bad = number(suite, "failures") + number(suite, "errors");
      failed += bad;
      skipped += number(suite, "skipped");
      passed += number(suite, "tests") - bad - number(suite, "skipped");
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
